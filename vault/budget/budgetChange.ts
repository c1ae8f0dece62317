/** One charge: subject, asset, amount in the asset's smallest unit as a decimal. */
export type Charge = readonly [subject: string, asset: string, amount: string]

/** One line of the budgets' journal. */
export type BudgetChange =
  /** The latest day seen (days since 1970, UTC); begins every snapshot. */
  | { readonly t: 'day'; readonly day: number }
  /** Another day becomes the latest, earlier or later, and keeps what was used. */
  | { readonly t: 'move'; readonly day: number }
  /** A subject's committed total of the day. */
  | { readonly t: 'total'; readonly charges: readonly Charge[] }
  | { readonly t: 'reserve'; readonly id: string; readonly day: number; readonly charges: readonly Charge[] }
  | { readonly t: 'commit'; readonly id: string }
  | { readonly t: 'release'; readonly id: string }
  /** Ids committed lately, oldest first. */
  | { readonly t: 'decided'; readonly ids: readonly string[] }

export function encodeChange(change: BudgetChange): Buffer {
  return Buffer.from(JSON.stringify(change), 'utf8')
}

export function decodeChange(payload: Buffer): BudgetChange {
  return JSON.parse(payload.toString('utf8')) as BudgetChange
}
