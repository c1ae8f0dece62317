import { VaultError } from '../errors/error.ts'
import type { BudgetLimit, BudgetRefusal, BudgetSubject, ReserveRequest } from '../ports/budget.ts'
import { type BudgetLedger, type Charge, endOf } from './ledger.ts'

const MAX_SPENDS = 64
const LONGEST_NAME = 256
/** More than any asset's supply. With this limit, a forged amount does not become a long number in the journal. */
const largestAmount = 2n ** 256n

export function subjectKey(subject: BudgetSubject): string {
  if (subject.kind === 'vault') return 'vault'
  return subject.kind === 'agent' ? `agent:${subject.agentId}` : `recipient:${subject.recipient}`
}

/**
 * What a request charges to each subject. Every spend counts for its agent, for the vault and for its recipient. Spends are
 * summed, so a transaction with two sends counts as the sum. They are counted even without a limit, so that a limit that the
 * owner sets at noon covers the morning too.
 */
export function chargesOf({ id, agentId, spends }: ReserveRequest): Charge[] {
  assertName('id', id)
  assertName('agentId', agentId)
  if (spends.length > MAX_SPENDS) {
    throw new VaultError('VALIDATION_ERROR', `Expected at most ${MAX_SPENDS} spends, got ${spends.length}.`)
  }
  const rollups = new Map<string, [string, string, bigint]>()
  const add = (subject: string, asset: string, amount: bigint) => {
    const key = JSON.stringify([subject, asset])
    const sum = rollups.get(key)
    if (sum === undefined) rollups.set(key, [subject, asset, amount])
    else sum[2] += amount
  }
  for (const { asset, amount, recipient } of spends) {
    assertName('asset', asset)
    if (typeof amount !== 'bigint' || amount < 0n || amount >= largestAmount) {
      throw new VaultError(
        'VALIDATION_ERROR',
        `Expected an amount from 0 to 2^256-1 of ${asset} as a bigint.`,
      )
    }
    if (amount === 0n) continue
    add(subjectKey({ kind: 'agent', agentId }), asset, amount)
    add('vault', asset, amount)
    if (recipient === undefined) continue
    assertName('recipient', recipient)
    add(subjectKey({ kind: 'recipient', recipient }), asset, amount)
  }
  return [...rollups.values()].map(([subject, asset, amount]) => [subject, asset, String(amount)])
}

/** The first limit that the charges exceed, or undefined. Limits per transaction are checked before daily limits. */
export function refusalFor(
  charges: readonly Charge[],
  limits: readonly BudgetLimit[],
  ledger: BudgetLedger,
  day: number,
): BudgetRefusal | undefined {
  const applying = limits.flatMap((limit) => {
    const subject = subjectKey(limit.subject)
    const charge = charges.find((c) => c[0] === subject && c[1] === limit.asset)
    return charge === undefined ? [] : [{ ...limit, requested: BigInt(charge[2]) }]
  })
  const resetsAt = endOf(day)
  for (const { subject, asset, perTransaction, requested } of applying) {
    if (perTransaction === undefined || requested <= perTransaction) continue
    return {
      ok: false,
      code: 'BUDGET_EXCEEDED_TX',
      subject,
      asset,
      limit: perTransaction,
      used: 0n,
      requested,
      resetsAt,
    }
  }
  for (const { subject, asset, perDay, requested } of applying) {
    if (perDay === undefined) continue
    const used = day > ledger.day ? 0n : ledger.used(subjectKey(subject), asset)
    if (used + requested <= perDay) continue
    return {
      ok: false,
      code: 'BUDGET_EXCEEDED_DAILY',
      subject,
      asset,
      limit: perDay,
      used,
      requested,
      resetsAt,
    }
  }
  return undefined
}

function assertName(what: string, text: string): void {
  if (typeof text === 'string' && text !== '' && text.length <= LONGEST_NAME) return
  throw new VaultError(
    'VALIDATION_ERROR',
    `Expected ${what} to be a string of 1 to ${LONGEST_NAME} characters.`,
  )
}
