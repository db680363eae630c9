//! OpenVINO, but wrong for one operator at one size: FAULT is a part of a test's id, such as Elu-22-float-2x3.
//!
//! In the output, the element of the largest magnitude is wrong by a tenth of a thousandth of it, an integer by one, and
//! a half by 64 units in its last place.

#[allow(dead_code)]
#[path = "../../harness/conformance/runners/rust/openvino.rs"]
mod openvino;

use openvino::{pack::{Json, Tensor, Value}, runner::{self, Failure, Runtime}, OpenVino};
use std::{env, path::Path};

struct Faulty(OpenVino);

impl Runtime for Faulty {
    const NAME: &'static str = OpenVino::NAME;

    fn open(library: &str) -> Result<(Self, String), String> {
        OpenVino::open(library).map(|(real, version)| (Faulty(real), version))
    }

    fn run(&self, model: &Path, test: &Json, inputs: Vec<Vec<Value>>) -> Result<Vec<Vec<Value>>, Failure> {
        let mut results = self.0.run(model, test, inputs)?;
        if let (true, Value::Tensor(output)) = (test.at("id").text().contains(&env::var("FAULT").unwrap_or_default()), &mut results[0][0]) {
            spoil(output);
        }
        Ok(results)
    }
}

fn spoil(output: &mut Tensor) {
    match output.kind {
        1 => spoil_largest(&mut output.bytes, |bytes| f32::from_le_bytes(bytes.try_into().unwrap()).into(), |value| (value as f32).to_le_bytes().to_vec(), 4),
        11 => spoil_largest(&mut output.bytes, |bytes| f64::from_le_bytes(bytes.try_into().unwrap()), |value| value.to_le_bytes().to_vec(), 8),
        kind => output.bytes[0] ^= if kind == 10 || kind == 16 { 64 } else { 1 },
    }
}

fn spoil_largest(bytes: &mut [u8], read: fn(&[u8]) -> f64, write: fn(f64) -> Vec<u8>, size: usize) {
    let values: Vec<f64> = bytes.chunks(size).map(read).collect();
    let worst = (0..values.len()).max_by(|one, other| values[*one].abs().total_cmp(&values[*other].abs())).unwrap();
    let wrong = if values[worst] == 0.0 { 1e-4 } else { values[worst] * 1.0001 };
    bytes[worst * size..(worst + 1) * size].copy_from_slice(&write(wrong));
}

fn main() {
    runner::main::<Faulty>();
}
