import type { PayOutcome } from '../../buyer/payReport.ts'

/** Exit codes of `tollgate pay`, shown in `--help`. They are API: codes are added, never changed. */
export const exitCodes = {
  /** The payment is confirmed on chain and the response is complete, or the address was free. */
  ok: 0,
  /** This program or this machine failed. */
  internal: 1,
  /** Wrong options, keys or files. No request was sent and nothing was signed. */
  usage: 2,
  /** The buyer's rules refused the offer. Nothing was signed. */
  refused: 3,
  /** The price is above the cap and was not confirmed. Nothing was signed. */
  aboveCap: 4,
  /** The server failed or could not be reached. No payment left this machine. */
  failed: 5,
  /** The seller rejected the payment, and the payment is not on the chain. */
  rejected: 6,
  /** The seller responded as if it had been paid, but the chain does not confirm the payment. */
  unverified: 7,
  /** The payment was sent and its outcome is unknown. */
  unknown: 8,
  /** The payment is confirmed on chain, but the response is an error or incomplete. */
  badResponse: 9,
  /** The vault's owner or a rule refused the payment, or the agent has no grant. Nothing was paid. */
  vaultRefused: 10,
  /** The payment exceeds the vault's budget. Nothing was paid. */
  overBudget: 11,
  /** The vault is locked. Nothing was paid. */
  vaultLocked: 12,
  /** The vault, its relay or its proxy could not be reached. Nothing was paid. */
  vaultUnavailable: 13,
  /** The vault's owner did not decide in time. Nothing was paid. */
  vaultUnanswered: 14,
  /** Another run of the same command is in progress. This run signed nothing. */
  underWay: 15,
} as const

export const exitCodeOf: Readonly<Record<PayOutcome, number>> = {
  free: exitCodes.ok,
  paid: exitCodes.ok,
  refunded: exitCodes.ok,
  refused: exitCodes.refused,
  above_cap: exitCodes.aboveCap,
  failed: exitCodes.failed,
  rejected: exitCodes.rejected,
  unverified: exitCodes.unverified,
  unknown: exitCodes.unknown,
  bad_response: exitCodes.badResponse,
  under_way: exitCodes.underWay,
  vault_refused: exitCodes.vaultRefused,
  over_budget: exitCodes.overBudget,
  vault_locked: exitCodes.vaultLocked,
  vault_unavailable: exitCodes.vaultUnavailable,
  vault_unanswered: exitCodes.vaultUnanswered,
}

/** The table for `--help`. */
export const exitCodeHelp = `Exit codes:
  0  paid, the chain confirms it, and the response is complete (or the address was free)
  1  a fault of this program or machine
  2  wrong options, keys or files; no request was sent
  3  the offer was refused; nothing was signed
  4  the price is above the cap and was not confirmed; nothing was signed
  5  the server failed or could not be reached; no payment left this machine
  6  the seller rejected the payment, and the chain does not have it
  7  paid but not verified: the seller responded as if paid, but the chain does not confirm it
  8  the payment was sent and its outcome is unknown; the same command continues with it
  9  paid and confirmed, but the response is an error or incomplete
  15  another run of the same command is in progress; this one signed nothing
With --vault, and nothing paid:
  10  the vault's owner or a rule refused it
  11  its budget has no room for it
  12  it is locked
  13  it could not be reached
  14  its owner did not decide in time`
