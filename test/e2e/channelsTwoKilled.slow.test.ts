import t from 'tap'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { whySkipped } from '../helpers/postgres.ts'
import { startApi } from './helpers/api.ts'
import { read } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { channelsSection, inTurn, newChannelBuyer } from './helpers/channelBuyer.ts'
import { startGateway } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'
import { eventually } from './helpers/eventually.ts'
import { openStore } from './helpers/store.ts'

const CHANNELS = 10
/** Calls of each channel over two gateways. With CHANNEL_CALLS=1000, the test takes some minutes. */
const PER_CHANNEL = Number(process.env['CHANNEL_CALLS'] ?? 50)

const skip = (await whySkipped()) ?? false
t.test('the calls of ten channels over two gateways that are killed in turn', { skip }, async (t) => {
  const chains = await startChains(t)
  const [evm] = chains.both
  const log = { level: 'info', format: 'json' }
  const config = await writeConfig(t, chains, {
    evm: channelsSection({ minDeposit: '0.7', claimAmount: '0.2', watchMs: 1_000 }),
    sections: { log },
    store: 'postgres',
  })
  const second = await config.beside('second')
  const files = [config.file, second.file]
  const api = await startApi(t)
  const store = await openStore(config, chains.env, newSellerWallets(chains))
  const gateways = await Promise.all(files.map((file) => startGateway(t, { file }, chains.env)))
  const url = await store.addLink({ url: api.url, slug: 'channel', price: '0.01' })
  const send = inTurn([config.url, second.url])
  const buyers = await Promise.all(
    Array.from({ length: CHANNELS }, () => newChannelBuyer(chains, 50_000_000n, send)),
  )
  const paid = buyers.map(() => 0)
  const sum = () => paid.reduce((total, one) => total + one, 0)
  let failed = 0
  const paying = Promise.all(
    buyers.map(async (buyer, b) => {
      while (paid[b]! < PER_CHANNEL) {
        const target = `${url}?b=${b}&n=${paid[b]}`
        const bought = await buyer.fetch(target).then(read, () => undefined)
        if (bought?.status === 200) paid[b]!++
        else {
          failed++
          await new Promise((resolve) => setTimeout(resolve, 100))
        }
      }
    }),
  )
  const kills = 4
  for (let i = 1; i <= kills; i++) {
    const after = (i * CHANNELS * PER_CHANNEL) / (kills + 1)
    await eventually(async () => (sum() > after ? true : undefined), 600_000)
    const killed = i % 2
    gateways[killed]!.signal('SIGKILL')
    await gateways[killed]!.exited
    gateways[killed] = await startGateway(t, { file: files[killed]! }, chains.env)
  }
  await paying
  t.comment(`${failed} calls failed and were repeated, the seller worked ${api.calls.length} times`)

  const books = await openDatabase(config.file, chains.env)
  t.teardown(() => books.close())
  const storeId = (await books.stores.byUsername('alice'))!.id
  for (const buyer of buyers)
    await eventually(() =>
      buyer.scheme.refund(url).then(
        ({ success }) => success || undefined,
        () => undefined,
      ),
    )
  const [earned] = await books.channels.earnings(storeId)
  t.equal(earned!.claimedAtomic, earned!.chargedAtomic, 'a refund claims what was charged')
  t.equal(earned!.chargedAtomic, BigInt(earned!.calls) * 10_000n)
  t.ok(earned!.calls <= api.calls.length, 'each charged call was worked for')
  let spent = 0n
  for (const [b, { address }] of buyers.entries()) {
    const own = 50_000_000n - (await evm.balance(address))
    const most = BigInt(paid[b]! + kills) * 10_000n
    t.ok(own >= BigInt(paid[b]!) * 10_000n && own <= most, `${own} is charged for ${paid[b]} calls`)
    spent += own
  }
  t.equal(spent, earned!.chargedAtomic, 'buyers have paid exactly what is charged')
})
