"""Checks invoices against raw usage, with nothing of the platform: reads JSON on stdin, prints one line an error."""

import calendar
import json
import sys
from datetime import datetime, timezone
from decimal import ROUND_HALF_EVEN, Decimal

given = json.load(sys.stdin)
errors = []
cent = Decimal("0.01")
per_unit = {"cpu_seconds": 1000, "ram_gb_seconds": 1024 * 1000, "traffic_gb": 1024**3}


def when(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)


def cents(value):
    return value.quantize(cent, rounding=ROUND_HALF_EVEN)


def usage(start, end):
    sums = {}
    for event in given["usage"]:
        if start <= when(event["start"]) < end:
            key = (event["type"], event["price"])
            sums[key] = sums.get(key, 0) + int(event["amount"])
    return sum((cents(Decimal(amount) / per_unit[kind] * Decimal(price)) for (kind, price), amount in sums.items()), Decimal(0))


def nth_start(anchor, index):
    months = anchor.month - 1 + index
    year, month = anchor.year + months // 12, months % 12 + 1
    return anchor.replace(year=year, month=month, day=min(anchor.day, calendar.monthrange(year, month)[1]))


anchor = when(given["anchor"])
free_until = when(given["free_until"])
periods = sorted((i for i in given["invoices"] if i["kind"] == "period"), key=lambda i: i["start"])
for index, invoice in enumerate(periods):
    start, end = when(invoice["start"]), when(invoice["end"])
    if (start, end) != (nth_start(anchor, index), nth_start(anchor, index + 1)):
        errors.append(f"period {index} is {start} to {end}")
    expected = Decimal(invoice["price"]) + usage(start, end)
    if start < free_until:
        expected -= usage(start, min(end, free_until))
    if Decimal(invoice["subtotal"]) != expected:
        errors.append(f"{invoice['start']}: {invoice['subtotal']} is not {expected}")
for invoice in given["invoices"]:
    lines = sum((Decimal(amount) for amount in invoice["lines"]), Decimal(0))
    tax = cents(lines * Decimal(invoice["tax_rate"]))
    if (lines, tax, lines + tax) != tuple(Decimal(invoice[name]) for name in ("subtotal", "tax", "total")):
        errors.append(f"{invoice['id']}: the lines give {lines}, {tax}, {lines + tax}")
paid = [i for i in given["invoices"] if i["status"] == "paid"]
charged = sum((Decimal(i["total"]) - Decimal(i["paid_from_balance"]) for i in paid), Decimal(0))
by_processor = sum((Decimal(c) / 100 for c in given["charges"]), Decimal(0))
if charged != by_processor:
    errors.append(f"invoices say {charged} was charged, the processor {by_processor}")
for error in errors:
    print(error)
print(f"{len(given['invoices'])} invoices, {sum((Decimal(i['total']) for i in paid), Decimal(0))} paid, {by_processor} charged")
