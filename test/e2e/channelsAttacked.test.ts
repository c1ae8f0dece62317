import t from 'tap'
import { ChannelWatch } from '../../core/channels/channelWatch.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { silentLog } from '../../core/ports/log.ts'
import type { ChannelCharge } from '../../core/ports/store/channels.ts'
import { newBuyer, present, read } from './helpers/buyers.ts'
import { channelsSection, newChannelBuyer, signVoucher } from './helpers/channelBuyer.ts'
import { earnings, sendAsPayer, startSale, voucherFor, watchNow } from './helpers/channelSale.ts'
import { type Product, startProduct } from './helpers/product.ts'

const openChannel = ({ tollgate }: Product) => {
  const [open] = tollgate.stack.ports.channels!.book.all
  return open!
}

t.test('nothing is sold against a refund that waits for its block', async (t) => {
  const { product, evm, url, buyer, api } = await startSale(t)
  await evm.hold()
  await t.rejects(buyer.scheme.refund(url), /503/)
  for (let i = 0; i < 2; i++) {
    const voucher = await signVoucher(buyer, url, { max: 20_000n })
    const sold = await present(`${url}?n=1`, voucher)
    t.match(sold, { status: 402, body: { error: { reason: /exceeds_balance/ } } })
    await watchNow(product)
  }
  await evm.release()
  await watchNow(product)
  t.equal(api.calls.length, 1)
  t.match(openChannel(product).channel, { charged: 10_000n, balance: 10_000n, totalClaimed: 10_000n })
  t.equal((await buyer.forgetful().fetch(`${url}?n=2`)).status, 200, 'a new deposit is sold against')
})

t.test('a state that was read before a refund does not replace the state after it', async (t) => {
  const { product, evm, url, buyer } = await startSale(t)
  const open = openChannel(product)
  const before = { ...open.channel }
  const sinceMs = performance.now()
  t.match(await buyer.scheme.refund(url), { success: true })
  await product.tollgate.stack.ports.channels!.book.update(open, before, sinceMs)
  t.equal(open.channel.balance, 10_000n)
  const voucher = await signVoucher(buyer, url, { max: 20_000n })
  t.match(await present(`${url}?n=1`, voucher), { status: 402 })
  t.equal(await evm.balance(product.wallets.base), 10_000n)
})

t.test('a withdrawal that is read while a call is charged is not forgotten', async (t) => {
  const { product, url, buyer } = await startSale(t)
  const open = openChannel(product)
  const { channels } = product.tollgate.stack.store
  const { charge } = channels
  Object.assign(channels, {
    charge(one: ChannelCharge) {
      open.channel = { ...open.channel, pendingWithdrawal: 70_000n }
      return charge(one)
    },
  })
  t.equal((await buyer.fetch(`${url}?n=1`)).status, 200)
  t.equal(open.channel.pendingWithdrawal, 70_000n)
})

t.test('a database that is behind the contract sells no claimed total again', async (t) => {
  const { product, url, buyer, api } = await startSale(t)
  for (let n = 1; n < 4; n++) t.equal((await buyer.fetch(`${url}?n=${n}`)).status, 200)
  const open = openChannel(product)
  const { channels } = product.tollgate.stack.store
  const { channel } = open
  const claimed = { ...channel, totalClaimed: 60_000n }
  await channels.update(channel.id, claimed)
  await product.tollgate.stack.ports.channels!.book.update(open, claimed, performance.now())
  const old = await signVoucher(buyer, url, { max: 50_000n })
  t.match(await present(`${url}?n=4`, old), { status: 402, body: { error: { reason: /below_claimed/ } } })
  const next = await signVoucher(buyer, url, { max: 70_000n })
  t.match(await present(`${url}?n=5`, next), { status: 200 })
  t.equal(api.calls.length, 5)
  t.equal(open.channel.charged, 70_000n)
})

t.test('what a channel still has is claimed, if it owes more', async (t) => {
  const { product, evm, url, buyer } = await startSale(t)
  for (let n = 1; n < 4; n++) t.equal((await buyer.fetch(`${url}?n=${n}`)).status, 200)
  const { channel } = openChannel(product)
  // As after a deposit that has left the chain.
  const [chain] = [...product.tollgate.stack.ports.channels!.networks.values()].map((one) => one.chain)
  await chain!.claim([{ ...channel, balance: 25_000n }])
  t.equal(await evm.balance(product.wallets.base), 25_000n)
  await watchNow(product)
  t.match(await earnings(product), { chargedAtomic: 40_000n, claimedAtomic: 25_000n })
})

t.test('a claim whose block leaves the chain is sent again', async (t) => {
  const { product, evm, url, buyer } = await startSale(t, { claimAmount: '0.03' })
  const { chains } = product
  for (let n = 1; n < 3; n++) t.equal((await buyer.fetch(`${url}?n=${n}`)).status, 200)
  const snapshot = await chains.evm.rpc('evm_snapshot')
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 30_000n)
  await chains.evm.rpc('evm_revert', snapshot)
  await watchNow(product)
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 30_000n)
  t.match(await earnings(product), { chargedAtomic: 30_000n, claimedAtomic: 30_000n })
})

t.test('nothing is sold against a refund whose block leaves the chain and comes back', async (t) => {
  const { product, evm, url, buyer, api } = await startSale(t)
  const { chains, wallets } = product
  const sent: unknown[] = []
  evm.rpc.onCall((method, [raw]) => {
    if (method.startsWith('eth_sendRawTransaction')) sent.push(raw)
  })
  const before = await chains.evm.blockNumber()
  t.match(await buyer.scheme.refund(url), { success: true })
  await chains.evm.reorg(Number((await chains.evm.blockNumber()) - before))
  await watchNow(product)
  t.match(openChannel(product), { channel: { balance: 100_000n }, pendingRefund: { amount: 90_000n } })
  const voucher = await signVoucher(buyer, url, { max: 20_000n })
  t.match(await present(`${url}?n=1`, voucher), {
    status: 402,
    body: { error: { reason: /exceeds_balance/ } },
  })
  for (const raw of sent) await chains.evm.rpc('eth_sendRawTransaction', raw)
  await watchNow(product)
  t.match(openChannel(product), { channel: { balance: 10_000n, totalClaimed: 10_000n }, pendingRefund: null })
  t.equal(await evm.balance(wallets.base), 10_000n)
  t.equal(await evm.balance(buyer.address), 49_990_000n)
  t.equal(api.calls.length, 1)
})

t.test('a claim whose block leaves the chain after its gateway has ended is sent again', async (t) => {
  const { product, evm } = await startSale(t, { claimAmount: '0.01' })
  const { store, ports, chains } = product.tollgate.stack
  const { book, networks } = ports.channels!
  const [network] = [...networks.values()]
  const snapshot = await product.chains.evm.rpc('evm_snapshot')
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 10_000n)
  await product.chains.evm.rpc('evm_revert', snapshot)
  // As in the gateway that claims from now on, where no call has opened the channel.
  book.drop(openChannel(product))
  const watch = new ChannelWatch({
    network: network!,
    book,
    channels: store.channels,
    assets: chains.assets,
    clock: systemClock,
    log: silentLog,
    claims: () => true,
  })
  t.teardown(() => watch.close())
  await watch.runNow()
  t.equal(await evm.balance(product.wallets.base), 10_000n)
})

t.test('a channel is claimed as soon as its deposit is seen again', async (t) => {
  const { product, evm } = await startSale(t, { claimAmount: '0.01' })
  // As from a node that lacks the last blocks.
  const lift = evm.rpc.add('eth_call', { kind: 'result', result: `0x${'0'.repeat(128)}` })
  await watchNow(product)
  lift()
  t.equal(openChannel(product).channel.balance, 0n)
  await watchNow(product)
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 10_000n)
})

t.test(
  'a claimed voucher, which is public, neither blocks the channel nor gets a newer voucher',
  async (t) => {
    const { product, url, buyer } = await startSale(t, { claimAmount: '0.01' })
    await watchNow(product)
    for (let n = 1; n < 3; n++) t.equal((await buyer.fetch(`${url}?n=${n}`)).status, 200)
    const old = await signVoucher(buyer, url, { max: 10_000n })
    let isOver = false
    const flood = Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        while (!isOver) {
          const refused = await present(`${url}?n=flood${i}`, old)
          t.match(refused.body, { error: { reason: /below_claimed/ } })
          const offer = Buffer.from(refused.headers.get('payment-required')!, 'base64').toString()
          t.notMatch(offer, 'voucherState')
        }
      }),
    )
    for (let n = 3; n < 6; n++) t.equal((await buyer.fetch(`${url}?n=${n}`)).status, 200)
    isOver = true
    await flood
  },
)

t.test('a caller who names unknown channels is limited like every failed payment', async (t) => {
  const product = await startProduct(t, {
    evm: channelsSection(),
    pluginOptions: { 'rate-limit': { paymentPoints: 5 } },
  })
  const url = await product.addLink('channel')
  const stranger = await newChannelBuyer(product.chains, 0n)
  const statuses: number[] = []
  for (let i = 0; i < 8; i++) {
    const salt = `0x${String(i).padStart(64, '0')}`
    const voucher = await signVoucher(stranger, url, { max: 777n, config: { salt } })
    statuses.push((await present(`${url}?n=1`, voucher)).status)
  }
  t.strictSame(statuses, [402, 402, 402, 402, 402, 429, 429, 429])
})

t.test('a channel is refunded in parts of at least a deposit', async (t) => {
  const { product, url, buyer } = await startSale(t)
  await t.rejects(buyer.scheme.refund(url, { amount: '9999' }), /refund_amount_invalid/)
  t.match(await buyer.scheme.refund(url, { amount: '10000' }), { amount: '10000' })
  t.equal(openChannel(product).channel.balance, 90_000n)
})

t.test('a deposit with a number beyond 256 bits, or that needs too much gas, is refused', async (t) => {
  const product = await startProduct(t, { evm: channelsSection() })
  const url = await product.addLink('channel')
  const buyer = await newChannelBuyer(product.chains)
  const payment = JSON.parse(Buffer.from(await voucherFor(buyer, url), 'base64').toString())
  const encoded = () => Buffer.from(JSON.stringify(payment)).toString('base64')
  const [evm] = product.chains.both
  const lift = evm.rpc.add('eth_estimateGas', { kind: 'result', result: '0x989680' })
  t.match(await present(`${url}?n=1`, encoded()), { status: 402, text: /gas/ })
  lift()
  t.equal(evm.rpc.calls('eth_sendRawTransaction'), 0)
  payment.payload.deposit.authorization.erc3009Authorization.salt = '9'.repeat(78)
  t.match(await present(`${url}?n=1`, encoded()), {
    status: 400,
    body: { error: { code: 'invalid_payment' } },
  })
  t.equal(product.api.calls.length, 0)
})

t.test('a link for POST only is not bought by GET with any payment', async (t) => {
  const product = await startProduct(t, { evm: channelsSection() })
  const [evm] = product.chains.both
  const url = await product.addLink('posted', '0.01', { methods: ['POST'] })
  const buyer = await newBuyer(product.chains, evm)
  const payment = await buyer.sign(url)
  t.match(await present(`${url}?n=1`, payment), { status: 405 })
  const { accepted, payload } = JSON.parse(Buffer.from(payment, 'base64').toString())
  const first = { x402Version: 1, scheme: 'exact', network: 'base-sepolia', payload, accepted }
  const header = Buffer.from(JSON.stringify(first)).toString('base64')
  t.match(await read(await fetch(`${url}?n=1`, { headers: { 'x-payment': header } })), { status: 405 })
  t.equal(product.api.calls.length, 0)
})

t.test('a payer who withdraws gets nothing that was sold', async (t) => {
  const { product, evm, url, buyer, api } = await startSale(t)
  const { config } = openChannel(product).channel
  await sendAsPayer(product, 'initiateWithdraw', [config, 90_000n])
  t.equal((await buyer.fetch(`${url}?n=1`)).status, 200, 'the withdrawal is not seen yet')
  await watchNow(product)
  await product.chains.evm.advanceTime(3_601)
  await sendAsPayer(product, 'finalizeWithdraw', [config])
  await watchNow(product)
  t.equal(await evm.balance(product.wallets.base), 20_000n)
  t.equal(await evm.balance(buyer.address), 49_980_000n)
  t.match(openChannel(product).channel, { charged: 20_000n, balance: 20_000n, totalClaimed: 20_000n })
  const voucher = await signVoucher(buyer, url, { max: 30_000n })
  t.match(await present(`${url}?n=2`, voucher), { status: 402 })
  t.equal(api.calls.length, 2)
})
