//! Checks of plain rows.

use bytes::Bytes;

use super::Terms;
use super::subject::Subject;
use crate::Registers;

fn name(terms: &Terms, row: &str) -> String {
    format!("conformance-{}.{row}", terms.first_log)
}

pub async fn keeps_rows<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let row = name(terms, "kept");
    subject.ensure_eq(subject.get_row(&row).await, None, "a row that was never stored");
    subject.ensure(subject.put_row(&row, 5, "five").await, || "the first version was not stored".into());
    subject.ensure_eq(subject.get_row(&row).await, Some((5, Bytes::from("five"))), "the row");
    let other = name(terms, "other_row-2");
    subject.ensure(subject.put_row(&other, 0, "").await, || "an empty row was not stored".into());
    subject.ensure_eq(subject.get_row(&other).await, Some((0, Bytes::new())), "an empty row");
    subject.ensure_eq(subject.get_row(&row).await, Some((5, Bytes::from("five"))), "the row beside it");
}

pub async fn orders_rows<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let row = name(terms, "ordered");
    let steps = [
        (5, "five", true, 5, "five"),
        (4, "four", false, 5, "five"),
        (5, "five again", true, 5, "five again"),
        (9, "nine", true, 9, "nine"),
        (0, "zero", false, 9, "nine"),
    ];
    for (slot, content, stored, then_slot, then) in steps {
        let answer = subject.put_row(&row, slot, content).await;
        subject.ensure_eq(answer, stored, &format!("whether slot {slot} was stored"));
        subject.ensure_eq(subject.get_row(&row).await, Some((then_slot, Bytes::from(then))), "the row then");
    }
}

/// What the checks before left behind.
pub async fn are_there_again<R: Registers>(subject: &Subject<R>, terms: &Terms) {
    let ordered = name(terms, "ordered");
    subject.ensure_eq(subject.get_row(&ordered).await, Some((9, Bytes::from("nine"))), "a row");
    subject.ensure(!subject.put_row(&ordered, 8, "eight").await, || "a lower slot was stored".into());
    let other = name(terms, "other_row-2");
    subject.ensure_eq(subject.get_row(&other).await, Some((0, Bytes::new())), "an empty row");
}
