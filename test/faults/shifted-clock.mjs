// Loaded before a process of the platform: its clock is an hour ahead of everybody else's.
const aheadMs = 3_600_000;
const RealDate = Date;
globalThis.Date = class extends RealDate {
  constructor(...words) {
    if (words.length === 0) super(RealDate.now() + aheadMs);
    else super(...words);
  }

  static now() {
    return RealDate.now() + aheadMs;
  }
};
