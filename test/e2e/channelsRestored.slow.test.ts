import t from 'tap'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { startApi } from './helpers/api.ts'
import { present, read } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { channelsSection, newChannelBuyer, signVoucher } from './helpers/channelBuyer.ts'
import { startGateway } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'
import { takeCopy } from './helpers/restoredBackup.ts'
import { openStore } from './helpers/store.ts'

t.test('calls that a restored database lacks are charged by the next voucher, once', async (t) => {
  const chains = await startChains(t)
  const [evm] = chains.both
  const log = { level: 'info', format: 'json' }
  const config = await writeConfig(t, chains, { evm: channelsSection(), sections: { log } })
  const wallets = newSellerWallets(chains)
  const api = await startApi(t)
  const store = await openStore(config, chains.env, wallets)
  const gateway = await startGateway(t, config, chains.env)
  const url = await store.addLink({ url: api.url, slug: 'channel', price: '0.01' })
  const buyer = await newChannelBuyer(chains)
  t.equal((await buyer.fetch(`${url}?n=1`)).status, 200)
  const restore = await takeCopy(t, config, chains.env)
  for (const n of [2, 3]) t.equal((await buyer.fetch(`${url}?n=${n}`)).status, 200)
  gateway.signal('SIGKILL')
  await gateway.exited
  await restore()
  await startGateway(t, config, chains.env)

  const tooMuch = await signVoucher(buyer, url, { max: 110_000n })
  t.match(await present(`${url}?n=4`, tooMuch), { status: 402 }, 'not above the deposit')
  const bought = await read(await buyer.fetch(`${url}?n=4`))
  const state = { channelState: { chargedCumulativeAmount: '40000' }, chargedAmount: '10000' }
  t.match(bought, { status: 200, receipt: { extra: state } }, bought.text)
  const ahead = await signVoucher(buyer, url, { max: 60_000n })
  const refused = await present(`${url}?n=5`, ahead)
  t.match(refused, { status: 402, body: { error: { reason: /amount_mismatch/ } } }, 'only the first one')
  t.match(await buyer.scheme.refund(url), { success: true, amount: '60000' })

  const books = await openDatabase(config.file, chains.env)
  t.teardown(() => books.close())
  const [earned] = await books.channels.earnings((await books.stores.byUsername('alice'))!.id)
  t.match(earned, { chargedAtomic: 40_000n, claimedAtomic: 40_000n })
  t.equal(await evm.balance(buyer.address), 49_960_000n)
})
