import t from 'tap'
import { privateKeyToAddress } from 'viem/accounts'
import { startApi } from './helpers/api.ts'
import { present, read } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { channelsSection, newChannelBuyer, signVoucher } from './helpers/channelBuyer.ts'
import { voucherFor } from './helpers/channelSale.ts'
import { startGateway } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'
import { openStore } from './helpers/store.ts'

t.test('a deposit that is repeated while it waits for its block is sent once, and buys once', async (t) => {
  const product = await startProduct(t, { evm: channelsSection() })
  const [evm] = product.chains.both
  const url = await product.addLink('channel')
  const buyer = await newChannelBuyer(product.chains)
  const payment = await voucherFor(buyer, `${url}?n=1`)
  const settling = privateKeyToAddress(product.chains.env['TOLLGATE_FACILITATOR_EVM_KEY'] as `0x${string}`)
  const sent = () => product.chains.evm.rpc<string>('eth_getTransactionCount', settling, 'latest')
  const before = Number(await sent())
  await evm.hold()
  const first = present(`${url}?n=1`, payment)
  await evm.rpc.whenCalled('eth_sendRawTransaction')
  const second = present(`${url}?n=1`, payment)
  t.match(await first, { status: 503, body: { error: { code: 'settlement_pending' } } })
  await evm.release()
  const bought = await second
  t.equal(bought.status, 200, bought.text)
  t.match(bought.receipt, { success: true, extra: { chargedAmount: '10000' } })
  t.equal(Number(await sent()), before + 1)
  t.equal(product.api.calls.length, 1)
  t.equal(await evm.balance(buyer.address), 49_900_000n)
})

t.test(
  'nothing is sold against a refund that waited for its block when the gateway was killed',
  async (t) => {
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
    t.equal((await buyer.fetch(`${url}?n=0`)).status, 200)
    await evm.hold()
    const sent = evm.rpc.forwarded('eth_sendRawTransaction')
    const refunding = buyer.scheme.refund(url).catch(() => undefined)
    await eventually(async () => (evm.rpc.forwarded('eth_sendRawTransaction') > sent ? true : undefined))
    gateway.signal('SIGKILL')
    await Promise.all([gateway.exited, refunding])

    await startGateway(t, config, chains.env)
    const voucher = await signVoucher(buyer, url, { max: 20_000n })
    const sold = await present(`${url}?n=1`, voucher)
    t.match(sold, { status: 402, body: { error: { reason: /exceeds_balance/ } } }, sold.text)
    await evm.release()
    await eventually(async () => ((await evm.balance(buyer.address)) === 49_990_000n ? true : undefined))
    t.equal(api.calls.length, 1)
    // The new process has no record of the transaction, so it signs nothing before the next block.
    const again = await eventually(async () => {
      const bought = await read(await buyer.forgetful().fetch(`${url}?n=2`))
      return bought.status === 503 ? undefined : bought
    })
    t.equal(again.status, 200, `a new deposit is sold against: ${again.text}`)
  },
)

t.test(
  'a deposit by Permit2 that waited for its block when the gateway was killed is used, and not sent again',
  async (t) => {
    const chains = await startChains(t)
    const [evm] = chains.both
    const log = { level: 'info', format: 'json' }
    const assets = [{ network: evm.network, address: evm.usdc, transferMethod: 'permit2' }]
    const config = await writeConfig(t, chains, { evm: channelsSection(), sections: { log, assets } })
    const api = await startApi(t)
    const store = await openStore(config, chains.env, newSellerWallets(chains))
    const gateway = await startGateway(t, config, chains.env)
    const url = await store.addLink({ url: api.url, slug: 'channel', price: '0.01' })
    const buyer = await newChannelBuyer(chains)
    await chains.evm.allowPermit2(buyer.address as `0x${string}`)
    const payment = await voucherFor(buyer, `${url}?n=1`)
    await evm.hold()
    const calling = present(`${url}?n=1`, payment).catch(() => undefined)
    await eventually(async () => (evm.rpc.forwarded('eth_sendRawTransaction') > 0 ? true : undefined))
    gateway.signal('SIGKILL')
    await Promise.all([gateway.exited, calling])
    await evm.release()
    await eventually(async () => ((await evm.balance(buyer.address)) === 49_900_000n ? true : undefined))

    await startGateway(t, config, chains.env)
    const bought = await present(`${url}?n=1`, payment)
    t.equal(bought.status, 200, bought.text)
    t.equal(api.calls.length, 1)
    t.equal((await buyer.forgetful().fetch(`${url}?n=2`)).status, 200)
    t.equal(await evm.balance(buyer.address), 49_900_000n, 'one deposit')
  },
)
