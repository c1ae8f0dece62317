import { setTimeout as wait } from 'node:timers/promises'
import type { ReceiptQuery, ReceiptVerdict } from '../buyer.ts'
import type { Charged } from '../payReport.ts'

const FIRST_WAIT_MS = 200
const LONGEST_WAIT_MS = 2_000

/** What became of a payment, whoever sent it. */
export interface PaymentState {
  readonly charged: Charged
  readonly transaction: string | null
}

/** One chain's own part of a verdict. */
export interface ReceiptChain {
  /** What a transaction is called there, such as `transaction hash`. */
  readonly transactionName: string
  isTransaction(text: string): boolean
  /** Empty when the transaction is our payment, undefined when it is not there yet, else what is wrong with it. */
  problemOf(transaction: string, signal: AbortSignal): Promise<string | undefined>
  stateOf(signal: AbortSignal): Promise<PaymentState>
}

/**
 * Verified means: the transaction that the seller names, or one that was found when none is named, is the payment.
 *
 * Waits, until the signal ends, for a transaction that is not there yet. Never throws for what a seller may claim.
 */
export async function judgeReceipt(
  chain: ReceiptChain,
  { transaction, signal }: Pick<ReceiptQuery, 'transaction' | 'signal'>,
): Promise<ReceiptVerdict> {
  if (transaction === null) return await lookFor(chain, signal)
  if (!chain.isTransaction(transaction))
    return await disputed(chain, `the seller names something that is no ${chain.transactionName}`)
  let isMissing = false
  const problem = await pollUntil(signal, async () => {
    const found = await chain.problemOf(transaction, signal)
    isMissing = found === undefined
    return found
  })
  if (problem.value === '') return { isVerified: true, charged: 'yes', transaction, problem: '' }
  const silence = isMissing ? 'the chain does not have the transaction' : inWords.unknown
  return await disputed(chain, problem.value ?? problem.failure ?? silence)
}

/** Waits for the payment itself, whoever sent it, and for the transaction it was in. */
async function lookFor(chain: ReceiptChain, signal: AbortSignal): Promise<ReceiptVerdict> {
  let charged = 'unknown' as Charged
  const found = await pollUntil(signal, async () => {
    const state = await chain.stateOf(signal)
    charged = state.charged
    const isOpen = charged === 'not_yet' || (charged === 'yes' && state.transaction === null)
    return isOpen ? undefined : state
  })
  const transaction = found.value?.transaction ?? null
  if (transaction !== null) return { isVerified: true, charged, transaction, problem: '' }
  return { isVerified: false, charged, transaction, problem: found.failure ?? inWords[charged] }
}

const inWords: Readonly<Record<Charged, string>> = {
  no: 'the payment has expired unused',
  yes: 'the payment was used, but its transaction was not found',
  not_yet: 'the chain does not have the payment',
  unknown: 'the chain could not be asked in time',
}

/** One look, with time of its own: the caller's may be used up, and whether money moved is what the user asks next. */
async function disputed(chain: ReceiptChain, problem: string): Promise<ReceiptVerdict> {
  try {
    const { charged, transaction } = await chain.stateOf(AbortSignal.timeout(5_000))
    return { isVerified: false, charged, transaction, problem }
  } catch {
    return { isVerified: false, charged: 'unknown', transaction: null, problem }
  }
}

interface Polled<T> {
  /** What `ask` found; undefined when the time was up first. */
  readonly value: T | undefined
  /** The last failure's message, when the last try failed. */
  readonly failure: string | undefined
}

/**
 * Asks again and again, ever more slowly (0.2 s to 2 s), until the answer is not undefined or the signal ends. A try that
 * throws counts as one without an answer: nodes fail for a moment and come back. Never throws.
 */
async function pollUntil<T>(signal: AbortSignal, ask: () => Promise<T | undefined>): Promise<Polled<T>> {
  let failure: string | undefined
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
    try {
      const value = await ask()
      failure = undefined
      if (value !== undefined) return { value, failure }
    } catch (error) {
      // A try that was cut off by the end of the time says nothing about the node.
      if (!signal.aborted) failure = (error as Error).message
    }
    try {
      await wait(waitMs, undefined, { signal })
    } catch {
      return { value: undefined, failure }
    }
  }
}
