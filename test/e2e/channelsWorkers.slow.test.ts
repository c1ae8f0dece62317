import t from 'tap'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { startApi } from './helpers/api.ts'
import { read } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { type ChannelBuyer, channelsSection, newChannelBuyer } from './helpers/channelBuyer.ts'
import { startGateway } from './helpers/child.ts'
import { patient, writeConfig } from './helpers/config.ts'
import { openStore } from './helpers/store.ts'

const CALLS = 200
const AT_ONCE = 20

t.test('the workers of a gateway sell the calls of a channel together', async (t) => {
  const chains = await startChains(t)
  const [evm] = chains.both
  const log = { level: 'info', format: 'json' }
  const config = await writeConfig(t, chains, {
    evm: {
      ...channelsSection({ minDeposit: '1', claimAmount: '0.2', watchMs: 1_000 }),
      settleTimeoutMs: patient.settleTimeoutMs,
    },
    pluginOptions: { upstream: patient.upstream },
    sections: { log },
  })
  config.rewrite({ gateway: { port: Number(new URL(config.url).port), workers: 2 } })
  const wallets = newSellerWallets(chains)
  const api = await startApi(t)
  const store = await openStore(config, chains.env, wallets)
  await startGateway(t, config, chains.env)
  const url = await store.addLink({ url: api.url, slug: 'channel', price: '0.01' })

  const buyers = await Promise.all(Array.from({ length: AT_ONCE / 2 }, () => newChannelBuyer(chains)))
  /**
   * Repeats a call that was not served, for which nothing was charged: 503 where a busy machine took too long, and 402 where the other
   * call of the channel was first twice, because the client corrects a total once.
   */
  const buy = async (buyer: ChannelBuyer, target: string, init?: RequestInit) => {
    for (;;) {
      const bought = await buyer.fetch(target, init).then(read)
      if (bought.status !== 402 && bought.status !== 503) return bought
    }
  }
  for (const buyer of buyers) t.equal((await buy(buyer, `${url}?first`)).status, 200)
  let n = 0
  await Promise.all(
    [...buyers, ...buyers].map(async (buyer) => {
      while (n < CALLS) {
        // Each call has a connection of its own, so that the workers get the calls in turn.
        const bought = await buy(buyer, `${url}?n=${n++}`, { headers: { connection: 'close' } })
        t.equal(bought.status, 200, bought.text)
      }
    }),
  )
  const calls = n + buyers.length
  t.equal(api.calls.length, calls, 'the seller has worked once for each')
  for (const buyer of buyers) t.match(await buyer.scheme.refund(url), { success: true, transaction: /^0x/ })

  const books = await openDatabase(config.file, chains.env)
  t.teardown(() => books.close())
  const [earned] = await books.channels.earnings((await books.stores.byUsername('alice'))!.id)
  const chargedAtomic = BigInt(calls) * 10_000n
  t.match(earned, { calls, chargedAtomic, claimedAtomic: chargedAtomic })
  let spent = 0n
  for (const { address } of buyers) spent += 50_000_000n - (await evm.balance(address))
  t.equal(spent, chargedAtomic, 'buyers have paid exactly what is charged')
})
