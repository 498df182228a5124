//! What policies are told, given what is seen.

use tierd::signals::{News, Translator, Unmet};
use tierd::table::{Accessed, Piece, Table};
use tiertune_host::source::{Access, AccessKind, Signals};
use tiertune_policy::{AccessedBits, Event, Needs, SamplerRequest};

use crate::fake::BITS;

const WRITTEN: Signals = Signals {
    accessed_bits: false,
    written_bits: true,
    ..BITS
};
const PID: i32 = 7;

fn request(event: Event, period: u64) -> SamplerRequest {
    SamplerRequest { event, period }
}

/// 512 pages of 4 KiB at the first addresses, the first half of them in the fast tier.
fn table() -> Table {
    let mut table = Table::new(4096, 1024, 1 << 30, 1 << 20);
    let block = table.take(PID, 0).expect("room");
    for frame in 0..512 {
        table.note(block, frame, Some(u8::from(frame >= 256)));
    }
    table.pieces_mut(block).push(Piece {
        start: 0,
        end: 512,
        object: 0,
        site: 0,
        whole_pages: 512,
    });
    table
}

fn seen(kind: AccessKind, page: u64, time_ns: u64) -> Access {
    Access {
        pid: PID,
        thread: PID,
        address: page * 4096,
        bytes: 1,
        kind,
        weight: 1,
        time_ns,
        armed_ns: None,
        node: None,
    }
}

fn told(translator: &mut Translator, accesses: &[Access]) -> (News, Accessed) {
    let (mut table, mut accessed) = (table(), Accessed::default());
    let news = translator.translate(accesses, &mut table, &mut accessed, |time| time);
    (news, accessed)
}

#[test]
fn what_cannot_be_had_is_named() {
    let loads = [request(Event::LoadMiss, 100)];
    let problem = Translator::new(&loads, &loads, Needs::default(), &Signals::default(), "", 1).expect_err("no source");
    assert!(
        problem.to_string().contains("hardware samples, and no source"),
        "{problem}"
    );
    let needs = Needs {
        truth: true,
        ..Needs::default()
    };
    assert!(matches!(
        Translator::new(&[], &[], needs, &BITS, "", 1),
        Err(Unmet::Never(_))
    ));
    let needs = Needs {
        accessed_bits: true,
        ..Needs::default()
    };
    let faults = Signals {
        hint_faults: true,
        ..Signals::default()
    };
    let problem = Translator::new(&[], &[], needs, &faults, "hint-faults", 1).expect_err("faults are no bits");
    assert!(
        problem.to_string().contains("hint-faults cannot stand for that"),
        "{problem}"
    );
}

#[test]
fn written_pages_are_stores_where_stores_are_sampled_and_loads_otherwise() {
    let writes = [seen(AccessKind::Written, 300, 5)];
    for (requests, expected) in [
        (
            vec![request(Event::LoadMiss, 100), request(Event::Store, 100)],
            vec![Event::Store],
        ),
        (vec![request(Event::LoadMiss, 100)], vec![Event::LoadMiss]),
        (vec![request(Event::SlowLoadMiss, 100)], vec![Event::SlowLoadMiss]),
    ] {
        let mut translator =
            Translator::new(&requests, &requests, Needs::default(), &WRITTEN, "written", 1).expect("enough");
        assert_eq!(translator.emulated.len(), 1);
        let events: Vec<Event> = told(&mut translator, &writes)
            .0
            .samples
            .iter()
            .map(|sample| sample.event)
            .collect();
        assert_eq!(events, expected);
    }
}

#[test]
fn slow_loads_are_those_of_the_slow_tier() {
    let slow = [request(Event::SlowLoadMiss, 100)];
    let mut translator = Translator::new(&slow, &slow, Needs::default(), &BITS, "bits", 1).expect("enough");
    let both = [seen(AccessKind::Accessed, 10, 1), seen(AccessKind::Accessed, 400, 1)];
    let pages: Vec<u32> = told(&mut translator, &both)
        .0
        .samples
        .iter()
        .map(|sample| sample.page)
        .collect();
    assert_eq!(pages, [400]);
}

#[test]
fn longer_periods_make_fewer_samples_and_shorter_ones_no_more() {
    let usual = [request(Event::LoadMiss, 100)];
    let all: Vec<Access> = (0..512).map(|page| seen(AccessKind::Accessed, page, 1)).collect();
    for (period, least, most) in [(100, 512, 512), (10, 512, 512), (400, 90, 170)] {
        let asked = [request(Event::LoadMiss, period)];
        let mut translator = Translator::new(&asked, &usual, Needs::default(), &BITS, "bits", 1).expect("enough");
        let samples = told(&mut translator, &all).0.samples.len();
        assert!(
            (least..=most).contains(&samples),
            "{samples} of 512 at a period of {period}"
        );
        assert_eq!(translator.periods(), [(Event::LoadMiss, period.max(100), false)]);
    }
}

#[test]
fn armed_pages_fault_once() {
    let needs = Needs {
        hint_faults: true,
        accessed_bits: true,
        ..Needs::default()
    };
    let mut translator = Translator::new(&[], &[], needs, &BITS, "bits", 1).expect("enough");
    translator.arm(10..13, 2_000_000);
    translator.disarm(12);
    let touched: Vec<Access> = (9..14)
        .map(|page| seen(AccessKind::Accessed, page, 9_000_000))
        .collect();
    let (news, mut accessed) = told(&mut translator, &touched);
    let faults: Vec<(u32, u64, u64)> = news
        .faults
        .iter()
        .map(|fault| (fault.page, fault.armed_at, fault.at))
        .collect();
    assert_eq!(faults, [(10, 2_000_000, 9_000_000), (11, 2_000_000, 9_000_000)]);
    assert!(accessed.test_and_clear(13) && !accessed.test(13) && !accessed.test(14));
    assert!(told(&mut translator, &touched).0.faults.is_empty());
}

#[test]
fn memory_that_is_not_managed_is_counted_apart() {
    let usual = [request(Event::LoadMiss, 100)];
    let mut translator = Translator::new(&usual, &usual, Needs::default(), &BITS, "bits", 1).expect("enough");
    let far = [seen(AccessKind::Accessed, 1 << 30, 1), seen(AccessKind::Accessed, 3, 1)];
    assert_eq!(told(&mut translator, &far).0.samples.len(), 1);
    assert_eq!(translator.elsewhere, 1);
}
