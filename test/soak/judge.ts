import type { Test } from 'tap'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { runTollgate } from '../e2e/helpers/child.ts'
import { eventually } from '../e2e/helpers/eventually.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'
import type { Load, PaidCall } from './load.ts'
import { PRICE_ATOMIC, type World } from './world.ts'

/** Until everything that was left open is finished. */
const FINISHED_MS = 90_000

/** An EVM payment is too old after 300 s, and is never charged then: on a machine that can't keep up. */
const OLD_MS = 240_000
/** A Solana payment that was interrupted too often is too old in the end, after a minute; it was never sent. */
const TOO_OLD = 'settle_exact_svm_block_height_exceeded'

/** What there is in the end, in the ledger and on chain. */
export interface Judgement {
  readonly calls: number
  readonly bought: number
  /** Refused because they were too old, by then and uncharged. */
  readonly expired: number
  readonly unanswered: number
  readonly sellerCalls: number
  readonly booked: number
  readonly transfers: number
  readonly misses: readonly string[]
}

/** Waits until nothing is open any more, and holds answers, books and chain against each other. */
export async function judge(t: Pick<Test, 'teardown'>, world: World, load: Load): Promise<Judgement> {
  const { config, chains, paidOn, api } = world
  const misses: string[] = []
  const must = (isSo: boolean, otherwise: string) => void (isSo || misses.push(otherwise))
  const books = await openDatabase(config.file, chains.env)
  let isClosed = false
  const close = async () => {
    if (!isClosed) await books.close()
    isClosed = true
  }
  t.teardown(close)
  await eventually(async () => {
    const open = await books.ledger.list({ states: ['claimed', 'settling', 'pending'], limit: 1 })
    return open.length === 0 || undefined
  }, FINISHED_MS).catch(async () => {
    const open = await books.ledger.list({ states: ['claimed', 'settling', 'pending'], limit: 5 })
    const summaryOf = open.map(({ row, state, lease, errorReason, dueReason, tries }) => {
      return `row ${row} ${state} of lease ${lease}, ${errorReason ?? dueReason}, looked at ${tries} times`
    })
    misses.push(`payments are open ${FINISHED_MS} ms after the last call: ${summaryOf.join('; ')}`)
  })
  const ledger = await checkedLedger(books.purchases)
  const { unresolvedPayments, refundDue, broken, unbalanced, transactions } = ledger
  must(unresolvedPayments === 0, `${unresolvedPayments} payments are not resolved`)
  must(refundDue === 0, `${refundDue} refunds are due`)
  must(
    broken.length + unbalanced.length === 0,
    `broken: ${JSON.stringify([broken, unbalanced]).slice(0, 2_000)}`,
  )

  const bought = load.calls.filter(({ final }) => final?.status === 200)
  const answered = load.calls.filter(({ final }) => final !== undefined)
  const expired = answered.filter((call) => isExpired(call))
  for (const { n, final } of answered.filter((call) => !isExpired(call)))
    must(final!.status === 200, `call ${n} was refused: ${final!.status} ${final!.text.slice(0, 300)}`)
  must(answered.length === load.calls.length, `${load.calls.length - answered.length} calls have no answer`)
  const ids = new Set(bought.map(({ final }) => final!.body._svc!.purchaseId))
  must(ids.size === bought.length, 'two answers are of one purchase')
  for (const { n, final } of bought)
    must(
      final!.text.includes(`?n=${n}"`),
      `call ${n} has the answer of another: ${final!.text.slice(0, 200)}`,
    )
  const booked = new Set(transactions.map(({ purchaseId }) => purchaseId))
  for (const id of ids) must(booked.has(id), `purchase ${id} was answered and is not booked`)
  for (const id of booked) must(ids.has(id), `purchase ${id} is in the ledger and no buyer has its response`)

  const onChain = (await Promise.all(paidOn.map((chain) => chain.transfersTo(world.payTo(chain))))).flat()
  const inLedger = transactions.map(({ transaction }) => transaction)
  must(
    onChain.sort().join() === inLedger.sort().join(),
    `${onChain.length} transfers on chain, ${inLedger.length} in the ledger`,
  )
  const received = await Promise.all(paidOn.map((chain) => chain.balance(world.payTo(chain))))
  const sum = received.reduce((one, other) => one + other, 0n)
  must(sum === PRICE_ATOMIC * BigInt(bought.length), `${sum} atomic units came for ${bought.length} calls`)
  const worked = new Set(api.calls.map((target) => /\bn=(\d+)/.exec(target)?.[1]))
  for (const { n } of bought) must(worked.has(String(n)), `the seller never worked for call ${n}`)
  await close()

  const doctor = await runTollgate(t, ['doctor', '--config', config.file, '--json'], chains.env).exited
  must(doctor.code === 0, `doctor: ${doctor.stdout}${doctor.stderr}`.slice(0, 4_000))
  return {
    calls: load.calls.length,
    bought: bought.length,
    expired: expired.length,
    unanswered: load.calls.length - answered.length,
    sellerCalls: api.calls.length,
    booked: transactions.length,
    transfers: onChain.length,
    misses,
  }
}

const isExpired = ({ final, beganMs, endedMs }: PaidCall): boolean =>
  final?.status === 402 && (final.body.error?.reason === TOO_OLD || endedMs! - beganMs > OLD_MS)
