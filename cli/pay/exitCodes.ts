import type { PayOutcome } from '../../buyer/payReport.ts'

/** What `tollgate pay` exits with; shown in `--help`. Codes are API: they are added, never given another meaning. */
export const exitCodes = {
  /** Paid, the chain confirms it, and the answer is complete; or the address was free. */
  ok: 0,
  /** A fault of this program or this machine. */
  internal: 1,
  /** Wrong options, keys or files; nothing was asked and nothing signed. */
  usage: 2,
  /** The offer was refused; nothing was signed. */
  refused: 3,
  /** The price is above the cap and nobody agreed; nothing was signed. */
  aboveCap: 4,
  /** The server failed or could not be reached; no payment left this machine. */
  failed: 5,
  /** The seller refused the payment, and the chain does not have it. */
  rejected: 6,
  /** The seller says that it was paid, or answered as if; the chain does not confirm it. */
  unverified: 7,
  /** The payment was sent and its outcome is not known. */
  unknown: 8,
  /** Paid and confirmed, but the answer is an error or incomplete. */
  badAnswer: 9,
  /** The vault's owner or a rule refused it, or the agent has no grant; nothing was paid. */
  vaultRefused: 10,
  /** The vault's budget has no room for it; nothing was paid. */
  overBudget: 11,
  /** The vault is locked; nothing was paid. */
  vaultLocked: 12,
  /** The vault, its relay or its proxy could not be reached; nothing was paid. */
  vaultAway: 13,
  /** The vault's owner did not answer in time; nothing was paid. */
  vaultUnanswered: 14,
  /** Another run of the same command is under way; this one signed nothing. */
  underWay: 15,
} as const

export const exitCodeOf: Readonly<Record<PayOutcome, number>> = {
  free: exitCodes.ok,
  paid: exitCodes.ok,
  refused: exitCodes.refused,
  above_cap: exitCodes.aboveCap,
  failed: exitCodes.failed,
  rejected: exitCodes.rejected,
  unverified: exitCodes.unverified,
  unknown: exitCodes.unknown,
  bad_answer: exitCodes.badAnswer,
  under_way: exitCodes.underWay,
  vault_refused: exitCodes.vaultRefused,
  over_budget: exitCodes.overBudget,
  vault_locked: exitCodes.vaultLocked,
  vault_away: exitCodes.vaultAway,
  vault_unanswered: exitCodes.vaultUnanswered,
}

/** The table for `--help`. */
export const exitCodeHelp = `Exit codes:
  0  paid, the chain confirms it, and the answer is complete (or the address was free)
  1  a fault of this program or machine
  2  wrong options, keys or files; nothing was asked
  3  the offer was refused; nothing was signed
  4  the price is above the cap and nobody agreed; nothing was signed
  5  the server failed or could not be reached; no payment left this machine
  6  the seller refused the payment, and the chain does not have it
  7  paid but not verified: the seller answered as if paid, and the chain does not confirm it
  8  the payment was sent and its outcome is not known; the same command goes on with it
  9  paid and confirmed, but the answer is an error or incomplete
  15  another run of the same command is under way; this one signed nothing
With --vault, and nothing paid:
  10  the vault's owner or a rule refused it
  11  its budget has no room for it
  12  it is locked
  13  it could not be reached
  14  its owner did not answer in time`
