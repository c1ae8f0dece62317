import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { examine } from '../../../cli/runtime/examine.ts'
import { openStore as openDatabase } from '../../../cli/runtime/open/openStore.ts'
import { type CheckedLedger, checkedLedger } from '../../helpers/checkedLedger.ts'
import { startApi } from './api.ts'
import { type Bought, newBuyer, present } from './buyers.ts'
import { newSellerWallets, startChains } from './chains.ts'
import { type Child, startGateway } from './child.ts'
import { type ConfigSections, patient, writeConfig } from './config.ts'
import { eventually } from './eventually.ts'
import { openStore } from './store.ts'

/** Where a gateway process is killed: between each two steps of a paid call. */
export const killPoints = [
  'claimed',
  'verified',
  'upstream called',
  'upstream answered',
  'stored',
  'broadcast',
  'mined',
  'recorded',
  'answered',
] as const
export type KillPoint = (typeof killPoints)[number]
export type SettleMode = 'after' | 'before'

/** Points at which a call that is charged first was on its way to be charged, and the seller had not been asked. */
const unserved: readonly KillPoint[] = ['stored', 'broadcast', 'mined']

/** Points at which nothing had left for the chain: the payment is free again. */
const uncharged: Readonly<Record<SettleMode, readonly KillPoint[]>> = {
  after: ['claimed', 'verified', 'upstream called', 'upstream answered'],
  before: ['claimed', 'verified'],
}

const killPlugin = fileURLToPath(new URL('./killPlugin.ts', import.meta.url))
const recoveryMs = 30_000

/** The plugin that kills in the gap, for the gaps that only the gateway itself can see. */
function pluginFor(point: KillPoint, settle: SettleMode): ConfigSections['pluginsBefore'] {
  const kill = (phase: string) => ({ use: killPlugin, with: { phase } })
  if (point === 'claimed') return { upstream: kill('claim') }
  if (point === 'verified')
    return settle === 'after' ? { upstream: kill('forward') } : { x402: kill('settle') }
  if (point === 'upstream answered') return { x402: kill('settle') }
  if (point === 'recorded') return { upstream: kill(settle === 'after' ? 'respond' : 'forward') }
  return undefined
}

/** Which points there are: a link that settles first has stored its attempt before the seller is asked. */
export const pointsOf = (settle: SettleMode): readonly KillPoint[] =>
  killPoints.filter((point) => settle === 'after' || point !== 'upstream answered')

/**
 * Kills a gateway (SIGKILL) at one point of one paid call, starts another on the same data, and compares the ledger with
 * the chain: as many transfers as purchases, none lost, none double; then the buyer comes back with the same payment.
 *
 * @param payingBy the chain, or `permit2` for a sponsored payment by Permit2
 */
export async function killAndRecover(
  t: Test,
  payingBy: 'evm' | 'solana' | 'permit2',
  settle: SettleMode,
  point: KillPoint,
): Promise<void> {
  // Slots as long as the real chain's: a block hash has to outlive the recovery.
  const chains = await startChains(t, { solana: { slotMs: 400 } })
  const chain = chains.both[payingBy === 'solana' ? 1 : 0]
  const { rpc, methods } = chain
  const log = { level: 'info', format: 'json' }
  // The buyer has not allowed Permit2, so its payment comes with a permit of the token.
  const assets =
    payingBy === 'permit2' ? [{ network: chain.network, address: chain.usdc, transferMethod: 'permit2' }] : []
  const config = await writeConfig(t, chains, {
    pluginOptions: { upstream: patient.upstream },
    sections: { log, assets },
  })
  const wallets = newSellerWallets(chains)
  const payTo = payingBy === 'solana' ? wallets.solana : wallets.base
  const api = await startApi(t)
  const store = await openStore(config, chains.env, wallets)

  const plugin = pluginFor(point, settle)
  if (plugin !== undefined) config.rewrite({}, plugin)
  const first = await startGateway(t, config, chains.env)
  const url = await store.addLink({ url: api.url, slug: 'killed', price: '0.01', settle })
  const buyer = await newBuyer(chains, chain)
  const target = `${url}?n=1`
  const named = buyer.named(`killed-at-${point.replace(' ', '-')}-0123456789`)
  const payment = await named.sign(target)
  const had = await chain.balance(buyer.address)

  const lost = present(target, payment).catch((): undefined => undefined)
  const answered = await killAt(first, lost)
  t.equal((await first.exited).signal, 'SIGKILL')
  t.equal(answered !== undefined, point === 'answered', 'the buyer has an answer only when there was one')
  const calledBefore = api.calls.length

  rpc.clear()
  config.rewrite({})
  await startGateway(t, config, chains.env)
  if (point === 'broadcast') await chain.release()
  const books = await openDatabase(config.file, chains.env)
  t.teardown(() => books.close())
  const ledger = await eventually(async () => {
    const now = await checkedLedger(books.purchases)
    const early = await books.ledger.list({ states: ['claimed'], limit: 10 })
    const settled = await books.ledger.list({ states: ['settled'], limit: 10 })
    const owing = settled.filter(({ hasResponse }) => !hasResponse)
    return now.unresolvedPayments + early.length + owing.length === 0 ? now : undefined
  }, recoveryMs)
  await holdTogether(ledger, uncharged[settle].includes(point) ? 0 : 1)
  const findings = await examine(config.file, chains.env, { queriesChains: true })
  t.strictSame(
    findings.filter(({ ok }) => !ok),
    [],
    'doctor finds nothing wrong',
  )

  const again = await present(target, payment)
  checkReturn(again, answered)
  const another = await present(target, await named.sign(target))
  t.match(
    another,
    { status: 409, body: { error: { code: 'payment_id_reused' } } },
    'the id is still the first payment’s',
  )
  await holdTogether(await checkedLedger(books.purchases), 1)
  t.equal(had - (await chain.balance(buyer.address)), 10_000n, 'the buyer was charged once')

  /** Provokes the point, and kills there. @returns what the buyer got. */
  async function killAt(child: Child, response: Promise<Bought | undefined>): Promise<Bought | undefined> {
    const kill = () => child.signal('SIGKILL')
    switch (point) {
      case 'upstream called':
        api.onCall(kill)
        break
      case 'stored':
        rpc.add(methods.broadcast, { kind: 'refuse' })
        await rpc.whenCalled(methods.broadcast)
        kill()
        break
      case 'broadcast':
        await chain.hold()
        rpc.add(methods.broadcast, { kind: 'drop-answer' })
        await eventually(async () => (rpc.forwarded(methods.broadcast) > 0 ? true : undefined))
        kill()
        break
      case 'mined':
        rpc.add(methods.status, { kind: 'refuse' })
        await rpc.whenCalled(methods.status)
        kill()
        break
      case 'answered': {
        const bought = await response
        kill()
        return bought
      }
    }
    return response
  }

  async function holdTogether(ledger: CheckedLedger, count: number): Promise<void> {
    t.match(ledger, { unresolvedPayments: 0, broken: { length: 0 }, unbalanced: { length: 0 } })
    t.strictSame(
      (await chain.transfersTo(payTo)).sort(),
      ledger.transactions.map(({ transaction }) => transaction).sort(),
      'the transfers on chain are those in the ledger',
    )
    t.equal(ledger.transactions.length, count, `${count} of them`)
  }

  function checkReturn(response: Bought, before: Bought | undefined): void {
    if (uncharged[settle].includes(point)) {
      t.equal(response.status, 200, `nothing was charged, and the payment is good: ${response.text}`)
      t.equal(api.calls.length, calledBefore + 1)
      return
    }
    if (settle === 'before' && unserved.includes(point)) {
      t.equal(response.status, 200, `charged, and served when the buyer is back: ${response.text}`)
      t.equal(api.calls.length, calledBefore + 1)
      return
    }
    t.equal(api.calls.length, calledBefore, 'the seller does not work again')
    if (settle === 'before' && (point !== 'answered' || response.status !== 200)) {
      // Charged without a response, or the outcome is unknown: a refund is due.
      t.match(response, { status: 409, body: { error: { code: 'payment_already_used' } } })
      return
    }
    t.equal(response.status, 200, response.text)
    t.match(response.body, { data: { target: '/?n=1' }, _svc: { purchaseId: String } })
    if (before !== undefined) t.equal(response.text, before.text)
  }
}
