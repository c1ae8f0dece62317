import { VaultError } from '../errors/error.ts'
import type { BudgetLimit, BudgetRefusal, BudgetSubject, ReserveRequest } from '../ports/budget.ts'
import { type BudgetLedger, type Charge, endOf } from './ledger.ts'

const MOST_SPENDS = 64
const LONGEST_NAME = 256
/** Above what any asset's supply can be; keeps a forged amount from becoming a long number in the journal. */
const largestAmount = 2n ** 256n

/** A subject as one text. */
export function subjectKey(subject: BudgetSubject): string {
  if (subject.kind === 'vault') return 'vault'
  return subject.kind === 'agent' ? `agent:${subject.agentId}` : `recipient:${subject.recipient}`
}

/**
 * What a request would charge to whom: every spend to its agent, to the vault and to its recipient, added up, so that
 * one transaction that sends twice counts as the sum. Counted without a limit too: a limit set at noon knows the morning.
 */
export function chargesOf({ id, agentId, spends }: ReserveRequest): Charge[] {
  assertName('id', id)
  assertName('agentId', agentId)
  if (spends.length > MOST_SPENDS) {
    throw new VaultError('VALIDATION_ERROR', `Expected at most ${MOST_SPENDS} spends, got ${spends.length}.`)
  }
  const sums = new Map<string, [string, string, bigint]>()
  const add = (subject: string, asset: string, amount: bigint) => {
    const key = JSON.stringify([subject, asset])
    const sum = sums.get(key)
    if (sum === undefined) sums.set(key, [subject, asset, amount])
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
  return [...sums.values()].map(([subject, asset, amount]) => [subject, asset, String(amount)])
}

/** The first limit that the charges break, or undefined. Limits for a transaction come before those for a day. */
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
    `Expected ${what} to be a text of 1 to ${LONGEST_NAME} characters.`,
  )
}
