"""Cron texts in English."""

from __future__ import annotations

import pytest
from tests.core.cron.cron_texts import legal_texts

from dutiful import Cron

SENTENCES = [
    ("posix", "* * * * *", "Every minute"),
    ("posix", "0 * * * *", "Every hour"),
    ("posix", "30 * * * *", "At minute 30 of every hour"),
    ("posix", "0,30 * * * *", "Every 30 minutes"),
    ("posix", "0,20,40 * * * *", "Every 20 minutes"),
    ("posix", "0,45 * * * *", "At minutes 0 and 45 of every hour"),
    ("posix", "30 2 * * *", "At 02:30"),
    ("posix", "0 0 * * *", "At 00:00"),
    ("posix", "0 0,12 * * *", "At 00:00 and 12:00"),
    ("posix", "0 0,6,12,18 * * *", "At 00:00, 06:00, 12:00 and 18:00"),
    ("posix", "0 0,4,8,12,16,20 * * *", "Every 4 hours"),
    ("posix", "15 9-17 * * *", "At minute 15 from 09:00 to 17:59"),
    ("posix", "* 9 * * *", "Every minute from 09:00 to 09:59"),
    ("posix", "* 9-17 * * 1-5", "Every minute from 09:00 to 17:59, Monday to Friday"),
    ("posix", "0-10 0 * * *", "At minutes 0 to 10 from 00:00 to 00:59"),
    ("posix", "5,10 1,2,3 * * *", "At minutes 5 and 10 from 01:00 to 03:59"),
    ("posix", "5 1,3,5,9,12 * * *", "At minute 5 of hours 1, 3, 5, 9 and 12"),
    ("posix", "30 0-4 * * *", "At minute 30 from 00:00 to 04:59"),
    ("posix", "* 0,2,4,6,8,10,12,14,16,18,20,22 * * *", "Every minute of every 2nd hour"),
    ("posix", "* 0,3,6,9,12,15,18,21 * * *", "Every minute of every 3rd hour"),
    ("posix", "* 0,4,8,12,16,20 * * *", "Every minute of every 4th hour"),
    ("posix", "0 9 * * 1-5", "At 09:00, Monday to Friday"),
    ("posix", "0 9 * * 0,6", "At 09:00, on Saturday and Sunday"),
    ("posix", "0 9 * * 0", "At 09:00, on Sunday"),
    ("posix", "0 9 * * 1,3,5", "At 09:00, on Monday, Wednesday and Friday"),
    ("posix", "0 9 * * 0-6", "At 09:00"),
    ("posix", "0 9 1 * *", "At 09:00, on day 1 of the month"),
    ("posix", "0 9 1,15 * *", "At 09:00, on days 1 and 15 of the month"),
    ("posix", "0 9 1-7 * *", "At 09:00, on days 1 to 7 of the month"),
    ("posix", "0 9 1-31 * *", "At 09:00"),
    ("posix", "0 9 * 1 *", "At 09:00, in January"),
    ("posix", "0 9 * 6-8 *", "At 09:00, June to August"),
    ("posix", "0 9 * 1,6-8,12 *", "At 09:00, in January, June to August and December"),
    ("posix", "0 12 14 2 *", "At 12:00, on day 14 of February"),
    ("posix", "0 12 1,2 1-3 *", "At 12:00, on days 1 and 2 of January to March"),
    ("posix", "0 0 1 * 1", "At 00:00, on day 1 of the month, or on Monday"),
    (
        "posix",
        "0 0 1,15 6-8 1-5",
        "At 00:00, on days 1 and 15 of the month, or Monday to Friday, June to August",
    ),
    ("posix", "0 0 1-31 * 1", "At 00:00, on days 1 to 31 of the month, or on Monday"),
    ("posix", "0 0 13 * 5", "At 00:00, on day 13 of the month, or on Friday"),
    ("posix", "0 0 * 1 1", "At 00:00, on Monday, in January"),
    ("posix", "0 0 29 2 *", "At 00:00, on day 29 of February"),
    ("posix", "0 0 31 * *", "At 00:00, on day 31 of the month"),
    ("posix", "0 0 30 * *", "At 00:00, on day 30 of the month"),
    ("posix", "0 0 29 * *", "At 00:00, on day 29 of the month"),
    ("posix", "0 0 29 2 1", "At 00:00, on day 29 of the month, or on Monday, in February"),
    ("posix", "0 0 30 2 1", "At 00:00, on day 30 of the month, or on Monday, in February"),
    ("posix", "0 0 31 4,6 1", "At 00:00, on day 31 of the month, or on Monday, in April and June"),
    ("posix", "0 0 31 1,3 *", "At 00:00, on day 31 of January and March"),
    ("posix", "0 0 31 1,4 *", "At 00:00, on day 31 of January and April"),
    ("posix", "0 0,13 * * *", "At 00:00 and 13:00"),
    ("posix", "59 23 31 12 *", "At 23:59, on day 31 of December"),
    ("standard", "*/5 * * * *", "Every 5 minutes"),
    ("standard", "*/7 * * * *", "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"),
    ("standard", "*/40 * * * *", "At minutes 0 and 40 of every hour"),
    ("standard", "5/15 * * * *", "At minutes 5, 20, 35 and 50 of every hour"),
    ("standard", "0 */2 * * *", "Every 2 hours"),
    ("standard", "0 */5 * * *", "At minute 0 of hours 0, 5, 10, 15 and 20"),
    (
        "standard",
        "0 0 */2 * *",
        "At 00:00, on days 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29 and 31 of the month",
    ),
    ("standard", "0 0 */7 * *", "At 00:00, on days 1, 8, 15, 22 and 29 of the month"),
    ("standard", "0 0 */16 * *", "At 00:00, on days 1 and 17 of the month"),
    ("standard", "0 0 */31 * *", "At 00:00, on day 1 of the month"),
    ("standard", "0 0 * * */2", "At 00:00, on Tuesday, Thursday, Saturday and Sunday"),
    ("standard", "0 0 * * */7", "At 00:00, on Sunday"),
    ("standard", "0 0 * * */8", "At 00:00, on Sunday"),
    ("standard", "0 0 * */2 *", "At 00:00, in January, March, May, July, September and November"),
    ("standard", "@daily", "At 00:00"),
    ("standard", "@hourly", "Every hour"),
    ("standard", "@weekly", "At 00:00, on Sunday"),
    ("standard", "@yearly", "At 00:00, on day 1 of January"),
    ("seconds", "* * * * * *", "Every second"),
    ("seconds", "*/10 * * * * *", "Every 10 seconds"),
    ("seconds", "*/7 * * * * *", "At seconds 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every minute"),
    ("seconds", "30 * * * * *", "At second 30 of every minute"),
    ("seconds", "15,45 * * * * *", "At seconds 15 and 45 of every minute"),
    ("seconds", "30 0 * * * *", "At second 30 of minute 0 of every hour"),
    (
        "seconds",
        "*/10 */5 * * * *",
        "Every 10 seconds of minutes 0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50 and 55",
    ),
    ("seconds", "* 0 9 * * *", "Every second of minute 0 from 09:00 to 09:59"),
    ("seconds", "30 30 2 * * *", "At 02:30:30"),
    ("seconds", "0 30 2 * * *", "At 02:30"),
    ("seconds", "0,30 30 2 * * *", "At 02:30:00 and 02:30:30"),
    ("seconds", "* * 9-17 * * *", "Every second from 09:00 to 17:59"),
    ("seconds", "5 * 9 * * *", "At second 5 of every minute from 09:00 to 09:59"),
    (
        "seconds",
        "0-9 0,30 9 1 * *",
        "At seconds 0 to 9 of minutes 0 and 30 from 09:00 to 09:59, on day 1 of the month",
    ),
]


@pytest.mark.parametrize(("dialect", "text", "sentence"), SENTENCES)
def test_a_text_reads_as(dialect, text, sentence):
    assert Cron.parse(text, dialect).describe() == sentence


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 0 * * 7", "0 0 * * sun"),
        ("0,15,30,45 * * * *", "*/15 * * * *"),
        ("@weekly", "0 0 * * 0"),
        ("0 0 * jan-mar *", "0 0 * 1,2,3 *"),
    ],
)
def test_spellings_of_one_meaning_read_the_same(one, other):
    assert Cron.parse(one, "standard").describe() == Cron.parse(other, "standard").describe()


def test_texts_of_different_meaning_never_read_the_same():
    meanings = {}
    for text in legal_texts(seed=4, count=10_000, dialect="seconds"):
        cron = Cron.parse(text, "seconds")
        meaning = cron.fields._replace(wildcard=False)
        assert meanings.setdefault(cron.describe(), meaning) == meaning
