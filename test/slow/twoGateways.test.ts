import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { startApi } from '../e2e/helpers/api.ts'
import { type Bought, newBuyer, present } from '../e2e/helpers/buyers.ts'
import { newSellerWallets, startChains } from '../e2e/helpers/chains.ts'
import { type Child, startGateway } from '../e2e/helpers/child.ts'
import { type ConfigFile, writeConfig } from '../e2e/helpers/config.ts'
import { eventually } from '../e2e/helpers/eventually.ts'
import { openStore } from '../e2e/helpers/store.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'

// Two `tollgate start` on one database with one key. The first has the key, the second hands it what it is paid.

/** A key that was left is another process's in this time, after which the other process serves. */
const TAKEN_OVER_MS = 15_000
/** Until everything that a gone process left is finished. */
const FINISHED_MS = 60_000

async function startBoth(t: Test) {
  const chains = await startChains(t)
  const [chain] = chains.both
  const config = await writeConfig(t, chains, { sections: { log: { level: 'info', format: 'json' } } })
  const wallets = newSellerWallets(chains)
  const api = await startApi(t)
  const store = await openStore(config, chains.env, wallets)
  const second = await config.beside('second')
  const start = (which: Pick<ConfigFile, 'file'>) => startGateway(t, which, chains.env)
  const urls = [config.url, second.url]
  const children = [await start(config), await start(second)] as const
  // On a busy machine the second may have the key.
  const notified = 'another process of this installation settles with this key'
  const isSecond = await Promise.race(
    children.map((child, i) => child.waitForOutput(notified).then(() => i === 1)),
  )
  const asker = children[isSecond ? 1 : 0]
  const holder = children[isSecond ? 0 : 1]
  const url = await store.addLink({ url: api.url, slug: 'two', price: '0.01' })
  const at = (which: 'holder' | 'asker', n: string) =>
    `${url.replace(config.url, urls[(which === 'asker') === isSecond ? 1 : 0]!)}?n=${n}`
  const books = await openDatabase(config.file, chains.env)
  t.teardown(() => books.close())
  const buyer = await newBuyer(chains, chain)
  const transfers = () => chain.transfersTo(wallets.base)

  /** The ledger holds as many purchases as the chain has transfers, and nothing is open. */
  async function holdTogether(count: number): Promise<void> {
    const ledger = await eventually(async () => {
      const now = await checkedLedger(books.purchases)
      const early = await books.ledger.list({ states: ['claimed'], limit: 10 })
      return now.unresolvedPayments + early.length === 0 ? now : undefined
    }, FINISHED_MS)
    t.match(ledger, { broken: { length: 0 }, unbalanced: { length: 0 } })
    t.strictSame(
      (await transfers()).sort(),
      ledger.transactions.map(({ transaction }) => transaction).sort(),
      'the transfers on chain are those in the ledger',
    )
    t.equal(ledger.transactions.length, count)
  }
  return { chains, chain, api, holder, asker, at, buyer, holdTogether }
}

/**
 * Comes back with the same payment until it is served, as a buyer's client does.
 * @throws when it is not in this time, with what the last answers were
 */
async function bought(target: string, payment: string, patienceMs: number): Promise<Bought> {
  const notified: string[] = []
  const served = eventually(async () => {
    const response = await present(target, payment).catch((error: Error) => error)
    if ('status' in response && response.status === 200) return response
    const what = 'status' in response ? `${response.status} ${response.text}` : response.message
    if (notified.at(-1) !== what) notified.push(what)
    await sleep(200)
    return undefined
  }, patienceMs)
  return await served.catch((error: Error) => {
    throw new Error(`${error.message}: ${notified.join(', then ')}`)
  })
}

const points = ['upstream called', 'stored', 'broadcast', 'mined'] as const

t.jobs = 3
for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
  for (const victim of ['holder', 'asker'] as const) {
    for (const point of points) {
      t.test(
        `${signal} for the ${victim} when ${point}: one purchase, one transfer`,
        { buffered: true },
        async (t) => {
          const two = await startBoth(t)
          const { chain, api, at, buyer } = two
          const { rpc, methods } = chain
          const gone: Child = two[victim]
          const other = victim === 'holder' ? 'asker' : 'holder'
          const payment = await buyer.sign(at('asker', 'one'))
          let isReached = point === 'upstream called'
          /** What a busy machine had refused for now is tried again, until the point is reached. */
          const untilReached = async (pay: () => Promise<Bought>): Promise<void> => {
            do {
              const response = await pay().catch((): undefined => undefined)
              if (response === undefined || isReached) return
              await sleep(200)
            } while (!isReached)
          }
          let isStruck = false
          const strike = () => {
            if (!isStruck) gone.signal(signal)
            isStruck = true
          }
          if (point === 'upstream called') api.onCall(strike)
          if (point === 'stored') rpc.add(methods.broadcast, { kind: 'refuse' })
          if (point === 'stored') rpc.add('eth_sendRawTransactionSync', { kind: 'refuse' })
          if (point === 'broadcast') await chain.hold()
          if (point === 'mined') rpc.add(methods.status, { kind: 'refuse' })
          if (point === 'mined')
            rpc.add('eth_sendRawTransactionSync', { kind: 'error', code: -32601, message: 'no' })
          const first = untilReached(() => present(at('asker', 'one'), payment))
          if (point === 'stored')
            await Promise.race([
              rpc.whenCalled(methods.broadcast),
              rpc.whenCalled('eth_sendRawTransactionSync'),
            ])
          if (point === 'broadcast')
            await eventually(async () =>
              rpc.forwarded(methods.broadcast) + rpc.forwarded('eth_sendRawTransactionSync') > 0
                ? true
                : undefined,
            )
          if (point === 'mined') await rpc.whenCalled(methods.status)
          isReached = true
          const struckAtMs = performance.now()
          if (point !== 'upstream called') strike()
          rpc.clear()
          if (point === 'broadcast') await chain.release()

          const response = await bought(at(other, 'one'), payment, FINISHED_MS)
          t.equal(response.status, 200)
          if (victim === 'holder' && point !== 'upstream called') {
            const payment = await buyer.sign(at('asker', 'after'))
            await bought(at('asker', 'after'), payment, FINISHED_MS)
            const tookMs = performance.now() - struckAtMs
            t.ok(tookMs < TAKEN_OVER_MS + 5_000, `another one settles after ${Math.round(tookMs)} ms`)
          } else {
            const payment = await buyer.sign(at(other, 'after'))
            await bought(at(other, 'after'), payment, FINISHED_MS)
          }
          if (signal === 'SIGKILL') {
            await gone.exited
            await first
            return two.holdTogether(2)
          }
          // It wakes up, and neither takes anything twice nor blocks any buyer.
          gone.signal('SIGCONT')
          await first
          const late = await Promise.all(
            (['holder', 'asker'] as const).map(async (which) =>
              bought(at(which, `late-${which}`), await buyer.sign(at(which, `late-${which}`)), FINISHED_MS),
            ),
          )
          t.strictSame(
            late.map(({ status }) => status),
            [200, 200],
          )
          await two.holdTogether(4)
        },
      )
    }
  }
}
