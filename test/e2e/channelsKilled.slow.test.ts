import t, { type Test } from 'tap'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { DAY_MS } from '../../core/ports/store/stats.ts'
import { startApi } from './helpers/api.ts'
import { read } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { channelsSection, newChannelBuyer } from './helpers/channelBuyer.ts'
import { startGateway } from './helpers/child.ts'
import { patient, writeConfig } from './helpers/config.ts'
import { eventually } from './helpers/eventually.ts'
import { openStore } from './helpers/store.ts'

const AT_ONCE = 20
/** Vouchers of each channel, enough for some claims. With CHANNEL_CALLS=1000, the test takes some minutes. */
const PER_CHANNEL = Number(process.env['CHANNEL_CALLS'] ?? 20)
const CALLS = AT_ONCE * PER_CHANNEL
/** What the gateway asks the node. */
const methods = ['eth_call', 'eth_estimateGas', 'eth_sendRawTransaction', 'eth_getTransactionReceipt']

/** Twenty buyers with a channel each pay calls while the gateway is killed; then all is claimed and refunded. */
async function payThroughKills(t: Test, delayMs: number, kills: number): Promise<void> {
  const chains = await startChains(t, { evm: { blockTimeMs: 2_000 } })
  const [evm] = chains.both
  if (delayMs > 0) for (const method of methods) evm.rpc.add(method, { kind: 'delay', ms: delayMs })
  const log = { level: 'info', format: 'json' }
  const config = await writeConfig(t, chains, {
    evm: {
      ...channelsSection({ minDeposit: '1', claimAmount: '0.05', watchMs: 1_000 }),
      settleTimeoutMs: patient.settleTimeoutMs,
    },
    pluginOptions: { upstream: patient.upstream },
    sections: { log },
  })
  const wallets = newSellerWallets(chains)
  const api = await startApi(t)
  const store = await openStore(config, chains.env, wallets)
  let gateway = await startGateway(t, config, chains.env)
  const url = await store.addLink({ url: api.url, slug: 'channel', price: '0.01' })

  let paid = 0
  let failed = 0
  const buyers = await Promise.all(Array.from({ length: AT_ONCE }, () => newChannelBuyer(chains)))
  const paying = Promise.all(
    buyers.map(async (buyer, b) => {
      for (let n = 0; n < PER_CHANNEL; ) {
        const bought = await buyer.fetch(`${url}?b=${b}&n=${n}`).then(read, () => undefined)
        if (bought?.status === 200) {
          n++
          paid++
        } else {
          failed++
          await new Promise((resolve) => setTimeout(resolve, 100))
        }
      }
    }),
  )
  for (let i = 1; i <= kills; i++) {
    await eventually(async () => (paid > (i * CALLS) / (kills + 1) ? true : undefined), 120_000)
    gateway.signal('SIGKILL')
    await gateway.exited
    gateway = await startGateway(t, config, chains.env)
  }
  await paying
  t.equal(paid, CALLS)
  t.comment(`${failed} calls failed and were repeated, the seller worked ${api.calls.length} times`)
  if (kills === 0) t.equal(failed, 0)
  if (kills === 0) t.equal(api.calls.length, CALLS)

  // All at once: each waits for a block.
  const refunds = await Promise.all(buyers.map((buyer) => buyer.scheme.refund(url)))
  for (const refund of refunds) t.match(refund, { success: true })
  const books = await openDatabase(config.file, chains.env)
  t.teardown(() => books.close())
  const { id: storeId } = (await books.stores.byUsername('alice'))!
  const [earned] = await books.channels.earnings(storeId)
  t.equal(earned!.chargedAtomic, BigInt(earned!.calls) * 10_000n)
  t.equal(earned!.claimedAtomic, earned!.chargedAtomic, 'a refund claims what was charged')
  t.ok(
    earned!.calls >= CALLS && earned!.calls <= CALLS + kills * AT_ONCE,
    `${earned!.calls} calls are charged`,
  )
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const span = { fromMs: today - DAY_MS, toMs: today + 2 * DAY_MS }
  await eventually(async () => {
    const { purchases } = await books.stats.totals(storeId, span)
    return purchases === earned!.calls || undefined
  }, 10_000)
  for (const { channel, baseAtomic, summedAtomic } of await books.channelBooks.audit(null, AT_ONCE + 1))
    t.equal(baseAtomic + summedAtomic, channel.charged, `the calls of ${channel.id} add up to its total`)
  t.strictSame(await books.channelBooks.wrongTotals(), [])
  let spent = 0n
  for (const { address } of buyers) spent += 50_000_000n - (await evm.balance(address))
  t.equal(spent, earned!.chargedAtomic, 'buyers have paid exactly what is charged')
}

t.test(`${CALLS} vouchers of twenty buyers at once`, (t) => payThroughKills(t, 0, 0))
t.test('with a node that answers after 40 ms', (t) => payThroughKills(t, 40, 0))
t.test('and a gateway that is killed three times', (t) => payThroughKills(t, 0, 3))
