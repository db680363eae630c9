//! A runtime that returns what is expected, but for the tests that PRETEND names: Elu-6-float-1=crashes Abs-6-int8-1=hangs

#[path = "../../../harness/conformance/runners/rust/judge.rs"]
mod judge;
#[path = "../../../harness/conformance/runners/rust/pack.rs"]
mod pack;
#[path = "../../../harness/conformance/runners/rust/runner.rs"]
mod runner;

use pack::{read_value, Json, Tensor, Value};
use runner::{Failure, Runtime};
use std::{env, path::Path, process, thread::sleep, time::Duration};

struct Pretending(String);

impl Runtime for Pretending {
    const NAME: &'static str = "pretending";

    fn open(library: &str) -> Result<(Self, String), String> {
        if library == "none" {
            return Err("there is no library".to_string());
        }
        Ok((Pretending(env::var("PRETEND").unwrap_or_default()), "1.0".to_string()))
    }

    fn run(&self, model: &Path, test: &Json, _inputs: Vec<Vec<Value>>) -> Result<Vec<Vec<Value>>, Failure> {
        let does = |what: &str| self.0.contains(&format!("{}={what}", test.at("id").text()));
        if does("refuses") || does("declines") {
            return Err(Failure(if does("refuses") { "refused" } else { "unsupported" }, "no \"kernel\"".to_string()));
        }
        if does("crashes") {
            process::abort();
        }
        if does("exits") {
            process::exit(3);
        }
        if does("hangs") {
            sleep(Duration::from_secs(60));
        }
        let file = model.with_file_name("test_data_set_0").join("output_0.pb");
        let mut output = read_value(&file, test.at("outputs").list()[0].at("type").text()).expect("a pack has its files");
        if let Some(last) = last_tensor(&mut output) {
            if does("is-wrong") {
                last.bytes[3] ^= 1;
            }
            if does("other-type") {
                last.kind = 7;
            }
            if does("other-shape") {
                last.dims[0] = 9;
            }
        }
        if let (Value::Sequence(items), true) = (&mut output, does("is-shorter")) {
            items.pop();
        }
        if let (Value::Sequence(items), true) = (&mut output, does("other-keys")) {
            if let Some(Value::Map(keys, _)) = items.first_mut() {
                keys[0].push('9');
            }
        }
        if does("is-nothing") {
            output = Value::Nothing;
        }
        if does("is-something") {
            output = Value::Tensor(Tensor { kind: 1, dims: vec![0], ..Tensor::default() });
        }
        Ok(vec![vec![output]])
    }
}

fn last_tensor(value: &mut Value) -> Option<&mut Tensor> {
    match value {
        Value::Tensor(tensor) => Some(tensor),
        Value::Sequence(items) | Value::Map(_, items) => items.last_mut().and_then(last_tensor),
        Value::Nothing => None,
    }
}

fn main() {
    runner::main::<Pretending>();
}
