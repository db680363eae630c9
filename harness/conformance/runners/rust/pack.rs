//! Reading a conformance pack: JSON, values, and the judgement of an output.

use std::{fmt::Write, fs, path::Path};

#[derive(Debug, Clone)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn parse(text: &str) -> Option<Json> {
        let (value, rest) = parse_json(text.trim_start(), 0)?;
        rest.trim_start().is_empty().then_some(value)
    }
    pub fn at(&self, key: &str) -> &Json {
        match self {
            Json::Object(members) => members.iter().find(|(name, _)| name == key).map_or(&Json::Null, |(_, value)| value),
            _ => &Json::Null,
        }
    }
    pub fn text(&self) -> &str {
        if let Json::Text(text) = self { text } else { "" }
    }
    pub fn number(&self) -> f64 {
        if let Json::Number(number) = self { *number } else { f64::NAN }
    }
    pub fn list(&self) -> &[Json] {
        if let Json::List(items) = self { items } else { &[] }
    }
    /// Whether a list has this text, or an object this key.
    pub fn has(&self, text: &str) -> bool {
        match self {
            Json::Object(members) => members.iter().any(|(name, _)| name == text),
            _ => self.list().iter().any(|each| each.text() == text),
        }
    }
}

fn parse_json(text: &str, depth: usize) -> Option<(Json, &str)> {
    let close = match text.chars().next().filter(|_| depth < 64)? {
        '"' => return parse_text(text).map(|(text, rest)| (Json::Text(text), rest)),
        '{' => '}',
        '[' => ']',
        _ => {
            let end = text.find(|each: char| ",]} \n\r\t".contains(each)).unwrap_or(text.len());
            let value = match &text[..end] {
                "null" => Json::Null,
                "true" => Json::Bool(true),
                "false" => Json::Bool(false),
                number => Json::Number(number.parse().ok()?),
            };
            return Some((value, &text[end..]));
        }
    };
    let (mut items, mut members, mut rest) = (Vec::new(), Vec::new(), text[1..].trim_start());
    while !rest.starts_with(close) {
        if !(items.is_empty() && members.is_empty()) {
            rest = rest.strip_prefix(',')?.trim_start();
        }
        let mut key = None;
        if close == '}' {
            let (name, after) = parse_text(rest)?;
            (key, rest) = (Some(name), after.trim_start().strip_prefix(':')?.trim_start());
        }
        let (value, after) = parse_json(rest, depth + 1)?;
        rest = after.trim_start();
        match key {
            Some(name) => members.push((name, value)),
            None => items.push(value),
        }
    }
    Some((if close == '}' { Json::Object(members) } else { Json::List(items) }, &rest[1..]))
}

fn parse_text(text: &str) -> Option<(String, &str)> {
    let (mut made, mut units, mut at) = (String::new(), Vec::new(), text.strip_prefix('"')?.char_indices());
    let flush = |units: &mut Vec<u16>, made: &mut String| made.push_str(&String::from_utf16_lossy(&std::mem::take(units)));
    while let Some((place, each)) = at.next() {
        let escaped = if each == '\\' { Some(at.next()?) } else { None };
        if let Some((place, 'u')) = escaped {
            units.push(u16::from_str_radix(text.get(place + 2..place + 6)?, 16).ok()?);
            at.nth(3);
            continue;
        }
        flush(&mut units, &mut made);
        match (each, escaped) {
            ('"', None) => return Some((made, &text[place + 2..])),
            (_, Some((_, code))) => made.push("n\nt\tr\rb\u{8}f\u{c}".split_once(code).map_or(code, |(_, after)| after.chars().next().unwrap_or(code))),
            _ => made.push(each),
        }
    }
    None
}

pub fn quote(text: &str) -> String {
    let mut made = String::from("\"");
    for each in text.chars() {
        match each {
            '"' | '\\' => made.extend(['\\', each]),
            each if each < ' ' => write!(made, "\\u{:04x}", each as u32).unwrap(),
            each => made.push(each),
        }
    }
    made + "\""
}

#[derive(Debug, Clone, Default)]
pub struct Tensor {
    /// ONNX's number.
    pub kind: i32,
    pub dims: Vec<usize>,
    pub bytes: Vec<u8>,
    pub strings: Vec<Vec<u8>>,
}

#[derive(Debug, Clone)]
pub enum Value {
    Tensor(Tensor),
    Sequence(Vec<Value>),
    /// The keys in ascending order, as texts, and a tensor for each.
    Map(Vec<String>, Vec<Value>),
    Nothing,
}

impl Value {
    /// The tensors in it, in their order.
    pub fn tensors(&self) -> Vec<&Tensor> {
        match self {
            Value::Tensor(tensor) => vec![tensor],
            Value::Sequence(items) | Value::Map(_, items) => items.iter().flat_map(Value::tensors).collect(),
            Value::Nothing => Vec::new(),
        }
    }
    /// Whether both are tensors, sequences of as many items, maps of the same keys, or nothing.
    pub fn is_like(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Tensor(_), Value::Tensor(_)) | (Value::Nothing, Value::Nothing) => true,
            (Value::Sequence(ours), Value::Sequence(theirs)) => ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(one, other)| one.is_like(other)),
            (Value::Map(ours, _), Value::Map(theirs, _)) => ours == theirs,
            _ => false,
        }
    }
}

/// The bits of an element of each type from 1 on.
const BITS: [usize; 28] = [32, 8, 8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64, 64, 128, 16, 8, 8, 8, 8, 4, 4, 4, 8, 2, 2, 6, 6];
pub const STRING: i32 = 8;

impl Tensor {
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 127) << shift;
        if first & 128 == 0 {
            return Some(value);
        }
    }
    None
}

/// The fields of a protobuf that are numbers, or bytes.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, u64, &[u8])>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        match tag & 7 {
            0 => found.push((tag >> 3, varint(&mut bytes)?, &bytes[..0])),
            1 => bytes = bytes.get(8..)?,
            5 => bytes = bytes.get(4..)?,
            2 => {
                let length = varint(&mut bytes)? as usize;
                found.push((tag >> 3, 0, bytes.get(..length)?));
                bytes = &bytes[length..];
            }
            _ => return None,
        }
    }
    Some(found)
}

fn parse_tensor(bytes: &[u8]) -> Option<Tensor> {
    let mut made = Tensor::default();
    for (field, number, mut content) in fields(bytes)? {
        match field {
            1 if content.is_empty() => made.dims.push(number as usize),
            1 => while !content.is_empty() { made.dims.push(varint(&mut content)? as usize) },
            2 => made.kind = number as i32,
            6 => made.strings.push(content.to_vec()),
            9 => made.bytes = content.to_vec(),
            _ => {}
        }
    }
    let bits = BITS.get(usize::try_from(made.kind - 1).ok()?)?;
    let right = if made.kind == STRING { made.strings.len() == made.count() } else { made.bytes.len() == (made.count() * bits).div_ceil(8) };
    right.then_some(made)
}

fn parse_value(bytes: &[u8], kind: &str) -> Option<Value> {
    if kind.starts_with("tensor(") {
        return parse_tensor(bytes).map(Value::Tensor);
    }
    if kind.starts_with("map(") {
        return parse_map(bytes);
    }
    let inner = fields(bytes)?.into_iter().filter(|(field, _, _)| matches!(*field, 3 | 5 | 6));
    if let Some(within) = kind.strip_prefix("optional(") {
        return inner.last().map_or(Some(Value::Nothing), |(_, _, content)| parse_value(content, within));
    }
    inner.map(|(_, _, content)| parse_value(content, kind.strip_prefix("seq(")?)).collect::<Option<_>>().map(Value::Sequence)
}

fn parse_map(bytes: &[u8]) -> Option<Value> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (field, number, mut content) in fields(bytes)? {
        match field {
            3 if content.is_empty() => keys.push((number as i64).to_string()),
            3 => while !content.is_empty() { keys.push((varint(&mut content)? as i64).to_string()) },
            4 => keys.push(String::from_utf8(content.to_vec()).ok()?),
            5 => if let Value::Sequence(items) = parse_value(content, "seq(tensor(")? { values = items },
            _ => {}
        }
    }
    (keys.len() == values.len()).then_some(Value::Map(keys, values))
}

pub fn read_value(path: &Path, kind: &str) -> Result<Value, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse_value(&bytes, kind).ok_or(format!("{} cannot be read", path.display()))
}
