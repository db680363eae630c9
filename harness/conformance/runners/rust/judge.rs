//! Whether an output is right.

use super::{pack::{read_value, Json, Tensor, Value, STRING}, runner::Failure};
use std::{fs, path::Path};

const NAMES: [&str; 17] = [
    "", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double", "uint32", "uint64", "", "", "bfloat16",
];

/// A float of at most 16 bits. `finite`: it has no infinities; `unsigned_zero`: its only NaN is what would be minus zero.
fn widen(bits: u32, exponent: u32, fraction: u32, bias: i32, finite: bool, unsigned_zero: bool) -> f64 {
    let (sign, e, f) = (bits >> (exponent + fraction) & 1, bits >> fraction & ((1 << exponent) - 1), bits & ((1 << fraction) - 1));
    let (top, all) = ((1 << exponent) - 1, (1 << fraction) - 1);
    let share = f64::from(f) / f64::from(1 << fraction);
    let value = match e {
        0 if unsigned_zero && sign == 1 && f == 0 => f64::NAN,
        0 => share * 2f64.powi(1 - bias),
        _ if finite && !unsigned_zero && e == top && f == all => f64::NAN,
        _ if !finite && !unsigned_zero && e == top => if f == 0 { f64::INFINITY } else { f64::NAN },
        _ => (1.0 + share) * 2f64.powi(e as i32 - bias),
    };
    if sign == 1 { -value } else { value }
}

/// An element of a tensor of floats; None for other types.
fn float(tensor: &Tensor, at: usize) -> Option<f64> {
    let part = |width: usize| &tensor.bytes[at * width..(at + 1) * width];
    let half = || u32::from(u16::from_le_bytes(part(2).try_into().unwrap()));
    let byte = || u32::from(part(1)[0]);
    Some(match tensor.kind {
        1 => f64::from(f32::from_le_bytes(part(4).try_into().unwrap())),
        11 => f64::from_le_bytes(part(8).try_into().unwrap()),
        10 => widen(half(), 5, 10, 15, false, false),
        16 => widen(half(), 8, 7, 127, false, false),
        17 => widen(byte(), 4, 3, 7, true, false),
        18 => widen(byte(), 4, 3, 8, true, true),
        19 => widen(byte(), 5, 2, 15, false, false),
        20 => widen(byte(), 5, 2, 16, true, true),
        _ => return None,
    })
}

fn integer(tensor: &Tensor, at: usize) -> f64 {
    let width = tensor.bytes.len() / tensor.count();
    let part = &tensor.bytes[at * width..(at + 1) * width];
    let signed = matches!(tensor.kind, 3 | 5 | 6 | 7) && part[width - 1] > 127;
    let mut wide = [if signed { 255 } else { 0 }; 16];
    wide[..width].copy_from_slice(part);
    i128::from_le_bytes(wide) as f64
}

fn doubles(path: &Path, count: usize) -> Result<Vec<f64>, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if bytes.len() != 8 * count {
        return Err(format!("{} has not {count} numbers", path.display()));
    }
    Ok(bytes.chunks_exact(8).map(|each| f64::from_le_bytes(each.try_into().unwrap())).collect())
}

/// What is wrong with an output, which the manifest describes; `absent` is one that a file of the pack does not allow to judge.
pub fn judge(got: &Value, folder: &Path, number: usize, described: &Json) -> Result<(), Failure> {
    let name = format!("output {number}");
    let wrong = |text: String| Failure("wrong", format!("{name} {text}"));
    let absent = |text: String| Failure("absent", text);
    if described.at("judged").text() == "distribution" {
        return judge_drawn(got, described).map_err(wrong);
    }
    let want = read_value(&folder.join(format!("output_{number}.pb")), described.at("type").text()).map_err(absent)?;
    if !got.is_like(&want) {
        return Err(wrong("is of another kind, a sequence of another length, or a map of other keys".to_string()));
    }
    let (ours, theirs) = (got.tensors(), want.tensors());
    let count = theirs.iter().map(|each| each.count()).sum();
    let bounds = match described.at("judged").text() {
        "elementwise" => {
            let read = |name: &str| doubles(&folder.join(format!("{name}_{number}.f64")), count).map_err(absent);
            Some((read("centre")?, read("tolerance")?))
        }
        _ => None,
    };
    let mut start = 0;
    for (got, want) in ours.into_iter().zip(theirs) {
        let centre = |at: usize| bounds.as_ref().map_or(f64::NAN, |(centre, _)| centre[start + at]);
        let tolerance = |at: usize| bounds.as_ref().map_or(0.0, |(_, tolerance)| tolerance[start + at]);
        judge_tensor(got, want, centre, tolerance, described.at("open").has("zero_sign")).map_err(wrong)?;
        start += want.count();
    }
    Ok(())
}

fn judge_tensor(got: &Tensor, want: &Tensor, centre: impl Fn(usize) -> f64, tolerance: impl Fn(usize) -> f64, sign_is_open: bool) -> Result<(), String> {
    if got.kind != want.kind || got.dims != want.dims {
        return Err(format!("has type {} and shape {:?} instead of type {} and shape {:?}", got.kind, got.dims, want.kind, want.dims));
    }
    for at in 0..want.count() {
        let (Some(ours), Some(theirs)) = (float(got, at), float(want, at)) else {
            return judge_exactly(got, want);
        };
        let same = if ours == theirs { sign_is_open || ours != 0.0 || ours.is_sign_negative() == theirs.is_sign_negative() } else { ours.is_nan() && theirs.is_nan() };
        let near = || ours != theirs && ours.is_finite() && theirs.is_finite() && (ours - centre(at)).abs() <= tolerance(at);
        if !same && !near() {
            return Err(format!("at {at}: {ours} instead of {theirs}, tolerance {:.2e}", tolerance(at)));
        }
    }
    Ok(())
}

/// Tensors of strings and of what is no float.
fn judge_exactly(got: &Tensor, want: &Tensor) -> Result<(), String> {
    let width = (want.bytes.len() / want.count()).max(1);
    let place = if want.kind == STRING {
        got.strings.iter().zip(&want.strings).position(|(one, other)| one != other)
    } else {
        got.bytes.iter().zip(&want.bytes).position(|(one, other)| one != other).map(|byte| byte / width)
    };
    place.map_or(Ok(()), |at| Err(format!("differs at {at}")))
}

fn judge_drawn(got: &Value, described: &Json) -> Result<(), String> {
    let drawn = described.at("distribution");
    let shape: Vec<usize> = drawn.at("shape").list().iter().map(|each| each.number() as usize).collect();
    let Value::Tensor(got) = got else { return Err("is no tensor".to_string()) };
    let name = NAMES.get(got.kind as usize).map_or(String::new(), |name| format!("tensor({name})"));
    if described.at("type").text() != name || got.dims != shape {
        return Err(format!("has type {} and shape {:?}", got.kind, got.dims));
    }
    let values: Vec<f64> = (0..got.count()).map(|at| float(got, at).unwrap_or_else(|| integer(got, at))).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let deviation = (values.iter().map(|each| (each - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
    let near = |found: f64, key: &str| (found - drawn.at(key).number()).abs() <= drawn.at(&format!("{key}_within")).number();
    let inside = values.iter().all(|each| drawn.at("low").number() <= *each && *each <= drawn.at("high").number());
    if values.is_empty() || (inside && near(mean, "mean") && near(deviation, "deviation")) {
        return Ok(());
    }
    Err(format!("has mean {mean} and deviation {deviation}, or elements outside of the bounds"))
}
