/** The subject of the mail and the title of the notification that a threshold was reached. */
export function budgetAlertTitle(percent: number): string {
  return percent >= 100 ? 'Your budget is used up' : `${percent} % of your budget is used`;
}
