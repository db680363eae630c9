//! Runs the tests of a conformance pack with a runtime, each in a process of its own, and writes a submission.
//!
//! A runtime is a file such as `openvino.rs`, which implements `Runtime`.
//!
//! Exit codes: 0 if something is right, and nothing is wrong, crashes or hangs; 1 otherwise; 2 if nothing could be run.

use super::judge::judge;
use super::pack::{quote, read_value, Json, Value};
use std::{
    collections::HashMap, env, fs, io::{Read, Write}, path::{Path, PathBuf}, process::{exit, Command, Stdio}, thread::sleep,
    time::{Duration, Instant, SystemTime},
};

/// Why a test is not right: `refused`, `unsupported`, `absent` or `wrong`, and what was said.
pub struct Failure(pub &'static str, pub String);

pub trait Runtime: Sized {
    const NAME: &'static str;
    /// Load the runtime from its library, and say its version.
    fn open(library: &str) -> Result<(Self, String), String>;
    /// Run a model once for each set of inputs. Names and types are in `test`, in the order of inputs and outputs.
    fn run(&self, model: &Path, test: &Json, inputs: Vec<Vec<Value>>) -> Result<Vec<Vec<Value>>, Failure>;
}

const USAGE: &str = "usage: run-pack PACK SUBMISSION [--library FILE] [--list NAME] [-k PATTERN] [--operator NAME] [--type NAME] [--opset NUMBER] [--timeout SECONDS]";
const OPTIONS: [&str; 8] = ["--library", "--list", "-k", "--operator", "--type", "--opset", "--timeout", "--one"];

fn refuse(message: String) -> ! {
    eprintln!("{message}");
    exit(2)
}

fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| matches(rest, &text[at..])),
        Some((first, rest)) => !text.is_empty() && (*first == b'?' || *first == text[0]) && matches(rest, &text[1..]),
    }
}

fn read_text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| refuse(format!("{}: {error}.", path.display())))
}

pub fn main<R: Runtime>() {
    let (mut places, mut options) = (Vec::new(), HashMap::new());
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            places.push(PathBuf::from(word));
        } else if word == "--help" {
            refuse(USAGE.to_string());
        } else if OPTIONS.contains(&word.as_str()) {
            let value = words.next().unwrap_or_else(|| refuse(format!("{word} needs a value.")));
            options.insert(word, value);
        } else {
            refuse(format!("There is no option {word}."));
        }
    }
    let [pack, submission] = &places[..] else { refuse(USAGE.to_string()) };
    let option = |name: &str, usual: &str| options.get(name).cloned().unwrap_or(usual.to_string());
    let (runtime, version) = R::open(&option("--library", "")).unwrap_or_else(|error| refuse(error));
    if options.contains_key("--one") {
        let mut given = String::new();
        std::io::stdin().read_to_string(&mut given).expect("the test is given to the process");
        let (result, reason) = run_test(&runtime, pack, &Json::parse(&given).expect("it is JSON"));
        fs::write(option("--one", ""), format!("{result} {reason}")).expect("the answer can be written");
        exit(0);
    }
    let path = pack.join("manifest.json");
    let text = read_text(&path);
    let manifest = Json::parse(&text).unwrap_or_else(|| refuse(format!("{} is no JSON.", path.display())));
    if manifest.at("format").text() != "onnx-parity-pack" || manifest.at("version").number() != 3.0 {
        refuse(format!("{} is not of the format onnx-parity-pack, version 3.", path.display()));
    }
    let digest = read_text(&pack.join("manifest.sha256")).split_whitespace().next().unwrap_or("").to_string();
    let (list, pattern, operator, kind, opset) = (option("--list", "core"), option("-k", "*"), option("--operator", ""), option("--type", ""), option("--opset", ""));
    let wanted = |test: &&Json| {
        test.at("lists").has(&list) && matches(pattern.as_bytes(), test.at("id").text().as_bytes())
            && (operator.is_empty() || test.at("operators").has(&operator)) && (kind.is_empty() || test.at("types").has(&kind))
            && (opset.is_empty() || opset == test.at("opset").number().to_string())
    };
    let tests: Vec<&Json> = manifest.at("tests").list().iter().filter(wanted).collect();
    if tests.is_empty() {
        refuse(format!("No test of {} was selected.", pack.display()));
    }
    let timeout = option("--timeout", "60").parse().unwrap_or_else(|_| refuse("--timeout needs a number of seconds.".to_string()));
    fs::create_dir_all(submission.join("logs")).unwrap_or_else(|error| refuse(format!("{}: {error}.", submission.display())));
    let earlier = read_earlier(submission, &digest);
    let again = format!("run-pack PACK OUT --library {}", option("--library", ""));
    let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let about = format!(
        "{{\"format\": \"onnx-parity-submission\", \"version\": 1, \"pack\": {}, \"runtime\": {{\"name\": {}, \"version\": {}}}, \
         \"platform\": \"{} {}\", \"runner\": \"rust 1\", \"list\": {}, \"started\": \"{}\", \"again\": {}}}\n",
        quote(&digest), quote(R::NAME), quote(&version), env::consts::OS, env::consts::ARCH, quote(&list), date(started), quote(&again),
    );
    fs::write(submission.join("submission.json"), about).unwrap_or_else(|error| refuse(format!("{}: {error}.", submission.display())));
    let mut results = fs::OpenOptions::new().append(true).create(true).open(submission.join("results.jsonl"))
        .unwrap_or_else(|error| refuse(format!("{}: {error}.", submission.display())));
    let (mut grave, mut right) = (0, 0);
    for test in &tests {
        let id = test.at("id").text();
        let result = earlier.get(id).cloned().unwrap_or_else(|| {
            let begun = Instant::now();
            let (result, reason) = watch(test, submission, Duration::from_secs(timeout));
            let seconds = begun.elapsed().as_secs_f64();
            writeln!(results, "{{\"id\": {}, \"result\": {}, \"reason\": {}, \"seconds\": {seconds:.4}}}", quote(id), quote(&result), quote(&reason))
                .unwrap_or_else(|error| refuse(format!("{}: {error}.", submission.display())));
            result
        });
        grave += usize::from(["wrong", "crashed", "hung"].contains(&result.as_str()));
        right += usize::from(result == "right");
    }
    let rest = tests.len() - right - grave;
    println!("{} {version}: {} tests, {right} right, {grave} wrong, crashed or hung, {rest} refused, unsupported or absent", R::NAME, tests.len());
    exit(i32::from(grave > 0 || right == 0));
}

/// In the process of a test.
fn run_test<R: Runtime>(runtime: &R, pack: &Path, test: &Json) -> (&'static str, String) {
    let folder = pack.join(test.at("folder").text());
    let sets: Vec<PathBuf> = (0..test.at("data_sets").number() as usize).map(|set| folder.join(format!("test_data_set_{set}"))).collect();
    let read = |set: &PathBuf| {
        let each = |(number, value): (usize, &Json)| read_value(&set.join(format!("input_{number}.pb")), value.at("type").text());
        test.at("inputs").list().iter().enumerate().map(each).collect()
    };
    let inputs: Vec<Vec<Value>> = match sets.iter().map(read).collect() {
        Ok(found) => found,
        Err(error) => return ("absent", error),
    };
    match runtime.run(&folder.join(test.at("model").text()), test, inputs) {
        Err(Failure(result, reason)) => (result, reason),
        Ok(found) => {
            for (outputs, set) in found.iter().zip(&sets) {
                for (number, described) in test.at("outputs").list().iter().enumerate() {
                    if let Err(Failure(result, reason)) = judge(&outputs[number], set, number, described) {
                        return (result, reason);
                    }
                }
            }
            ("right", String::new())
        }
    }
}

/// Run a test in a process of its own: this program again, which is given the test, and the file of the answer.
fn watch(test: &Json, submission: &Path, timeout: Duration) -> (String, String) {
    let (answer, log) = (submission.join("answer.txt"), submission.join(format!("logs/{}.txt", test.at("id").text())));
    let _ = fs::remove_file(&answer);
    let said = fs::File::create(&log).unwrap_or_else(|error| refuse(format!("{}: {error}.", log.display())));
    let mut child = Command::new(env::current_exe().expect("this program has a path"))
        .args(env::args().skip(1)).arg("--one").arg(&answer)
        .stdin(Stdio::piped()).stdout(said.try_clone().expect("a file is open twice")).stderr(said)
        .spawn().unwrap_or_else(|error| refuse(format!("No process: {error}.")));
    let _ = child.stdin.take().map(|mut pipe| pipe.write_all(write_json(test).as_bytes()));
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < timeout => sleep(Duration::from_millis(2)),
            _ => {
                let _ = child.kill().and_then(|()| child.wait());
                return ("hung".to_string(), format!("it did not end within {} s", timeout.as_secs()));
            }
        }
    };
    if fs::metadata(&log).is_ok_and(|about| about.len() == 0) {
        let _ = fs::remove_file(&log);
    }
    let found = fs::read_to_string(&answer).unwrap_or_default();
    let _ = fs::remove_file(&answer);
    match found.split_once(' ') {
        Some((result, reason)) => (result.to_string(), reason.to_string()),
        None => ("crashed".to_string(), match status.code() {
            Some(code) => format!("its process ended with code {code}"),
            None => format!("its process ended with {status}"),
        }),
    }
}

fn write_json(value: &Json) -> String {
    match value {
        Json::Null => "null".to_string(),
        Json::Bool(truth) => truth.to_string(),
        Json::Number(number) => number.to_string(),
        Json::Text(text) => quote(text),
        Json::List(items) => format!("[{}]", items.iter().map(write_json).collect::<Vec<_>>().join(",")),
        Json::Object(members) => format!("{{{}}}", members.iter().map(|(key, each)| format!("{}:{}", quote(key), write_json(each))).collect::<Vec<_>>().join(",")),
    }
}

/// The results of an earlier call of the same pack, by id. A last line that was cut off is taken away.
fn read_earlier(submission: &Path, digest: &str) -> HashMap<String, String> {
    let results = submission.join("results.jsonl");
    let Ok(mut text) = fs::read_to_string(&results) else { return HashMap::new() };
    let about = fs::read_to_string(submission.join("submission.json")).ok().and_then(|text| Json::parse(&text));
    match about {
        None => refuse(format!("{} has no submission.json, but results. Name a new folder.", submission.display())),
        Some(about) if about.at("pack").text() != digest => refuse(format!("{} was made with another pack.", submission.display())),
        _ => {}
    }
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    fs::write(&results, &text).unwrap_or_else(|error| refuse(format!("{}: {error}.", results.display())));
    text.lines().filter_map(Json::parse).map(|line| (line.at("id").text().to_string(), line.at("result").text().to_string())).collect()
}

/// A time in seconds since 1970 as in ISO 8601.
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let left = day - (365 * year + year / 4 - year / 100);
    let month = (5 * left + 2) / 153;
    let (shown, early) = ((month + 2) % 12 + 1, u64::from(month >= 10));
    format!("{:04}-{shown:02}-{:02}T{:02}:{:02}:{:02}Z", year + era * 400 + early, left - (153 * month + 2) / 5 + 1, rest / 3600, rest / 60 % 60, rest % 60)
}
