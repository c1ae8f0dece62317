import t from 'tap'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { startApi } from './helpers/api.ts'
import { read } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { channelsSection, newChannelBuyer } from './helpers/channelBuyer.ts'
import { startGateway } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'
import { eventually } from './helpers/eventually.ts'
import { openStore } from './helpers/store.ts'

const BUYERS = 5
const CALLS = 40
const KILLS = 2

t.test('through kills, calls are charged what they have used, and never the most instead', async (t) => {
  const chains = await startChains(t)
  const config = await writeConfig(t, chains, {
    evm: channelsSection({ minDeposit: '1' }),
    sections: { log: { level: 'info', format: 'json' } },
  })
  const api = await startApi(t)
  const costOf = (url: string) => new URL(url, 'http://api').searchParams.get('cost')!
  api.answerWith((request, response) => {
    response.writeHead(200, { 'settlement-overrides': JSON.stringify({ amount: costOf(request.url!) }) })
    response.end('{}')
  })
  const store = await openStore(config, chains.env, newSellerWallets(chains))
  let gateway = await startGateway(t, config, chains.env)
  const price = { upTo: '0.01', by: 'header', otherwise: '0.01' }
  const url = await store.addLink({ url: api.url, slug: 'use', price })

  let [paid, receipts] = [0, 0n]
  const buyers = await Promise.all(Array.from({ length: BUYERS }, () => newChannelBuyer(chains)))
  const paying = Promise.all(
    buyers.map(async (buyer, b) => {
      for (let n = 0; n < CALLS; ) {
        const cost = 10 * ((b + n) % 7)
        const bought = await buyer.fetch(`${url}?b=${b}&n=${n}&cost=${cost}`).then(read, () => undefined)
        if (bought?.status === 200) {
          const { chargedAmount } = bought.receipt!.extra as { chargedAmount: string }
          t.equal(chargedAmount, String(cost))
          receipts += BigInt(cost)
          paid++
          n++
        } else await new Promise((resolve) => setTimeout(resolve, 100))
      }
    }),
  )
  for (let i = 1; i <= KILLS; i++) {
    await eventually(async () => paid > (i * BUYERS * CALLS) / (KILLS + 1) || undefined, 300_000)
    gateway.signal('SIGKILL')
    await gateway.exited
    gateway = await startGateway(t, config, chains.env)
  }
  await paying
  const worked = api.calls.reduce((sum, target) => sum + BigInt(costOf(target)), 0n)
  for (const buyer of buyers) t.match(await buyer.scheme.refund(url), { success: true })
  const books = await openDatabase(config.file, chains.env)
  t.teardown(() => books.close())
  const { id: storeId } = (await books.stores.byUsername('alice'))!
  const [earned] = await books.channels.earnings(storeId)
  const { chargedAtomic, claimedAtomic } = earned!
  t.equal(claimedAtomic, chargedAtomic)
  t.ok(receipts <= chargedAtomic && chargedAtomic <= worked, `${receipts} ≤ ${chargedAtomic} ≤ ${worked}`)
})
