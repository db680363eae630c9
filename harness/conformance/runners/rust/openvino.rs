//! OpenVINO through its C API, from libopenvino_c.so, which its package for Python has too.
//!
//!     rustc --edition 2021 -O -o run-pack openvino.rs
//!     ./run-pack my-pack my-submission --library libopenvino_c.so

mod judge;
pub mod pack;
pub mod runner;

use pack::{Json, Tensor, Value};
use runner::{Failure, Runtime};
use std::{ffi::{c_char, c_int, c_void, CStr, CString}, path::Path, ptr::null_mut};

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

type Place = *mut c_void;
#[repr(C)]
struct Shape { rank: i64, dims: *mut i64 }
#[repr(C)]
struct Version { build: *const c_char, description: *const c_char }

pub struct OpenVino(Place);

/// OpenVINO's numbers of types, each with that of ONNX.
const TYPES: [(u32, i32); 19] = [
    (1, 9), (2, 16), (3, 10), (4, 1), (5, 11), (6, 22), (7, 3), (8, 5), (9, 6), (10, 7), (14, 21), (16, 2), (17, 4), (18, 12), (19, 13), (21, 17), (22, 19),
    (24, 23), (25, 24),
];
const LIMITS: [&str; 5] = ["not supported", "doesn't support", "does not support", "Not Implemented", "OpenVINO does not support the following ONNX operations"];

impl OpenVino {
    /// A function of the library by its name, as a pointer to be called with its own type.
    fn find(&self, name: &str) -> Place {
        let name = CString::new(name).expect("a name has no zero");
        unsafe { dlsym(self.0, name.as_ptr()) }
    }
    fn check(&self, status: c_int) -> Result<(), Failure> {
        if status == 0 {
            return Ok(());
        }
        let told: unsafe extern "C" fn() -> *const c_char = unsafe { std::mem::transmute(self.find("ov_get_last_err_msg")) };
        let said = unsafe { told() };
        let text = if said.is_null() { format!("status {status}") } else { unsafe { CStr::from_ptr(said) }.to_string_lossy().replace('\n', " ") };
        Err(Failure(if LIMITS.iter().any(|limit| text.contains(limit)) { "unsupported" } else { "refused" }, text))
    }
}

/// Calls a function of the library, and returns from the caller if it fails.
macro_rules! call {
    ($self:ident, $name:literal, $($type:ty: $value:expr),*) => {{
        let function: unsafe extern "C" fn($($type),*) -> c_int = unsafe { std::mem::transmute($self.find($name)) };
        $self.check(unsafe { function($($value),*) })?
    }};
}

impl Runtime for OpenVino {
    const NAME: &'static str = "openvino";

    fn open(library: &str) -> Result<(Self, String), String> {
        let path = CString::new(library).map_err(|error| error.to_string())?;
        let loaded = unsafe { dlopen(path.as_ptr(), 2) };
        if loaded.is_null() {
            return Err(unsafe { CStr::from_ptr(dlerror()) }.to_string_lossy().into_owned());
        }
        let opened = OpenVino(loaded);
        if opened.find("ov_get_openvino_version").is_null() {
            return Err(format!("{library} has not the C API of OpenVINO"));
        }
        let mut version = Version { build: std::ptr::null(), description: std::ptr::null() };
        let told: unsafe extern "C" fn(*mut Version) -> c_int = unsafe { std::mem::transmute(opened.find("ov_get_openvino_version")) };
        unsafe { told(&mut version) };
        // 2026.4.1-22982-e213a147257-releases/2026/4
        let build = unsafe { CStr::from_ptr(version.build) }.to_string_lossy().into_owned();
        Ok((opened, build.split('-').next().unwrap_or(&build).to_string()))
    }

    fn run(&self, model: &Path, test: &Json, inputs: Vec<Vec<Value>>) -> Result<Vec<Vec<Value>>, Failure> {
        let (mut core, mut compiled, mut request): (Place, Place, Place) = (null_mut(), null_mut(), null_mut());
        let word = |text: &str| CString::new(text).expect("a name has no zero");
        let path = word(&model.to_string_lossy());
        let (device, key, exactly) = (word("CPU"), word("INFERENCE_PRECISION_HINT"), word("f32"));
        call!(self, "ov_core_create", *mut Place: &mut core);
        let properties = [key.as_ptr(), exactly.as_ptr()];
        call!(self, "ov_core_compile_model_from_file_props", Place: core, *const c_char: path.as_ptr(), *const c_char: device.as_ptr(),
              usize: 1, *const *const c_char: properties.as_ptr(), *mut Place: &mut compiled);
        call!(self, "ov_compiled_model_create_infer_request", Place: compiled, *mut Place: &mut request);
        let mut results = Vec::new();
        for set in inputs {
            for (value, described) in set.into_iter().zip(test.at("inputs").list()) {
                let Value::Tensor(mut tensor) = value else { return Err(Failure("absent", "OpenVINO's C API has tensors only".to_string())) };
                let Some((type_, _)) = TYPES.iter().find(|(_, onnx)| *onnx == tensor.kind) else {
                    return Err(Failure("unsupported", format!("OpenVINO has no type {}", tensor.kind)));
                };
                let mut dims: Vec<i64> = tensor.dims.iter().map(|size| *size as i64).collect();
                let (shape, name) = (Shape { rank: dims.len() as i64, dims: dims.as_mut_ptr() }, word(described.at("name").text()));
                let mut made: Place = null_mut();
                call!(self, "ov_tensor_create_from_host_ptr", u32: *type_, Shape: shape, Place: tensor.bytes.as_mut_ptr().cast(), *mut Place: &mut made);
                call!(self, "ov_infer_request_set_tensor", Place: request, *const c_char: name.as_ptr(), Place: made);
                std::mem::forget(tensor); // The runtime reads it until the process ends.
            }
            call!(self, "ov_infer_request_infer", Place: request);
            let outputs = test.at("outputs").list().iter().map(|described| self.take(request, &word(described.at("name").text())));
            results.push(outputs.collect::<Result<_, _>>()?);
        }
        Ok(results)
    }
}

impl OpenVino {
    fn take(&self, request: Place, name: &CString) -> Result<Value, Failure> {
        let (mut tensor, mut data): (Place, Place) = (null_mut(), null_mut());
        let (mut type_, mut size, mut count, mut shape) = (0u32, 0usize, 0usize, Shape { rank: 0, dims: null_mut() });
        call!(self, "ov_infer_request_get_tensor", Place: request, *const c_char: name.as_ptr(), *mut Place: &mut tensor);
        call!(self, "ov_tensor_get_element_type", Place: tensor, *mut u32: &mut type_);
        let Some((_, kind)) = TYPES.iter().find(|(own, _)| *own == type_) else {
            return Err(Failure("absent", format!("this runner does not read OpenVINO's type {type_}")));
        };
        call!(self, "ov_tensor_get_size", Place: tensor, *mut usize: &mut count);
        // The API makes no shape without axes: of a tensor of rank 0, this returns an error.
        let asked: unsafe extern "C" fn(Place, *mut Shape) -> c_int = unsafe { std::mem::transmute(self.find("ov_tensor_get_shape")) };
        let status = unsafe { asked(tensor, &mut shape) };
        if count != 1 {
            self.check(status)?;
        }
        call!(self, "ov_tensor_get_byte_size", Place: tensor, *mut usize: &mut size);
        call!(self, "ov_tensor_data", Place: tensor, *mut Place: &mut data);
        let read = |length: usize| if length == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) } };
        let dims = (0..shape.rank as usize).map(|axis| unsafe { *shape.dims.add(axis) } as usize).collect();
        Ok(Value::Tensor(Tensor { kind: *kind, dims, bytes: read(size).to_vec(), strings: Vec::new() }))
    }
}

fn main() {
    runner::main::<OpenVino>();
}
