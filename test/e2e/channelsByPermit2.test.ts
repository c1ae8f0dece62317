import { randomBytes } from 'node:crypto'
import { computeChannelId } from '@x402/evm/batch-settlement/client'
import t, { type Test } from 'tap'
import { type Hex, serializeErc6492Signature } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { permit2DepositTypedData, voucherTypedData } from '../../core/x402/channelTerms.ts'
import { PERMIT2_COLLECTOR_ADDRESS } from '../../localnet/evm/startLocalEvm.ts'
import { present, read } from './helpers/buyers.ts'
import { type ChannelBuyer, channelsSection, newChannelBuyer } from './helpers/channelBuyer.ts'
import { earnings, voucherFor } from './helpers/channelSale.ts'
import { type Product, startProduct } from './helpers/product.ts'

const network = 'eip155:84532'
const usdc = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'

/** A product whose token is paid by Permit2, and that sells a link by channels. @param hasPermit whether the token has EIP-2612 */
async function startSale(t: Test, hasPermit = false) {
  const assets = [{ network, address: usdc, transferMethod: 'permit2', hasPermit }]
  const product = await startProduct(t, { evm: channelsSection(), sections: { assets } })
  const [evm] = product.chains.both
  const url = await product.addLink('channel')
  const buyer = await newChannelBuyer(product.chains)
  const settling = privateKeyToAddress(product.chains.env['TOLLGATE_FACILITATOR_EVM_KEY'] as Hex)
  const sent = async () =>
    Number(await product.chains.evm.rpc<string>('eth_getTransactionCount', settling, 'latest'))
  return { product, evm, url, buyer, sent, chain: product.chains.evm, api: product.api }
}

t.test('the official client deposits by Permit2, pays by vouchers and gets the rest back', async (t) => {
  const { product, evm, url, buyer, chain, api } = await startSale(t)
  await chain.allowPermit2(buyer.address as Hex)
  const { accepts } = (await (await fetch(url)).json()) as { accepts: { scheme: string; extra: object }[] }
  const offered = accepts.find(({ scheme }) => scheme === 'batch-settlement')
  t.match(offered, { extra: { assetTransferMethod: 'permit2', minDeposit: '100000' } })
  for (let n = 0; n < 12; n++) {
    const bought = await read(await buyer.fetch(`${url}?n=${n}`))
    t.equal(bought.status, 200, bought.text)
    t.match(bought.receipt, { success: true, transaction: n % 10 === 0 ? /^0x/ : '' })
  }
  t.equal(api.calls.length, 12)
  t.equal(await evm.balance(buyer.address), 49_800_000n, 'two deposits of ten calls each')
  t.match(await buyer.scheme.refund(url), { success: true, amount: '80000' })
  t.equal(await evm.balance(buyer.address), 50_000_000n - 120_000n)
  t.match(await earnings(product), { chargedAtomic: 120_000n, claimedAtomic: 120_000n })
})

t.test('twenty calls at once on one channel are all sold', async (t) => {
  const { product, url, buyer, chain, evm, api } = await startSale(t)
  await chain.allowPermit2(buyer.address as Hex)
  t.equal((await buyer.fetch(`${url}?n=0`)).status, 200)
  const all = await Promise.all(
    Array.from({ length: 20 }, async (_, n) => read(await buyer.fetch(`${url}?n=${n + 1}`))),
  )
  for (const { status, text } of all) t.equal(status, 200, text)
  t.equal(new Set(api.calls).size, 21)
  t.match(await earnings(product), { calls: 21, chargedAtomic: 210_000n })
  const [open] = product.tollgate.stack.ports.channels!.book.all
  t.equal(await evm.balance(buyer.address), 50_000_000n - open!.channel.balance)
})

t.test('a payer who has not allowed Permit2 gets the call that allows it, and then pays', async (t) => {
  const { url, buyer, chain, sent, api } = await startSale(t)
  const before = await sent()
  const payment = await voucherFor(buyer, `${url}?n=1`)
  const refused = await present(`${url}?n=1`, payment)
  t.equal(refused.status, 412, refused.text)
  t.match(refused.body, { approval: { to: usdc.toLowerCase(), data: /^0x095ea7b3/ } }, refused.text)
  t.ok(refused.headers.get('payment-required'))
  t.equal(await sent(), before)
  await chain.allowPermit2(buyer.address as Hex)
  t.equal((await present(`${url}?n=1`, payment)).status, 200)
  t.equal(api.calls.length, 1)
})

t.test("the token's permit allows Permit2 in the same transaction", async (t) => {
  const { product, url, buyer, evm, sent } = await startSale(t, true)
  const other = await product.addLink('other', '0.02')
  const before = await sent()
  const bought = await read(await buyer.fetch(`${url}?n=1`))
  t.equal(bought.status, 200, bought.text)
  t.equal(await sent(), before + 1)
  t.equal(await evm.balance(buyer.address), 49_900_000n)
  t.equal((await buyer.fetch(`${other}?n=1`)).status, 200, 'the same channel')
})

t.test('an allowance that is withdrawn before the block costs gas once', async (t) => {
  const { url, buyer, chain, evm, sent, api } = await startSale(t)
  await chain.allowPermit2(buyer.address as Hex)
  const payment = await voucherFor(buyer, `${url}?n=1`)
  const before = await sent()
  await evm.hold()
  const first = present(`${url}?n=1`, payment)
  await evm.rpc.whenCalled('eth_sendRawTransaction')
  await chain.allowPermit2(buyer.address as Hex, 0n)
  await evm.release()
  t.match(await first, { status: 402, body: { error: { reason: /deposit_transaction_failed/ } } })
  for (let i = 0; i < 3; i++) t.equal((await present(`${url}?n=1`, payment)).status, 412)
  t.equal(await sent(), before + 1)
  t.equal(api.calls.length, 0)
  await chain.allowPermit2(buyer.address as Hex)
  t.equal((await present(`${url}?n=1`, payment)).status, 200, 'the same permit is still good')
})

t.test('a deposit that is repeated while it waits for its block is sent once, and buys once', async (t) => {
  const { url, buyer, chain, evm, sent, api } = await startSale(t)
  await chain.allowPermit2(buyer.address as Hex)
  const payment = await voucherFor(buyer, `${url}?n=1`)
  const before = await sent()
  await evm.hold()
  const first = present(`${url}?n=1`, payment)
  await evm.rpc.whenCalled('eth_sendRawTransaction')
  const second = present(`${url}?n=1`, payment)
  t.match(await first, { status: 503, body: { error: { code: 'settlement_pending' } } })
  await evm.release()
  t.equal((await second).status, 200)
  t.equal(await sent(), before + 1)
  t.equal(api.calls.length, 1)
  t.equal(await evm.balance(buyer.address), 49_900_000n)
})

/** What is wrong with a deposit. The changes are signed. */
interface Fault {
  readonly permit?: Partial<Parameters<typeof permit2DepositTypedData>[1]['permit2']>
  readonly from?: string
  readonly validBefore?: bigint
  readonly payer?: string
  readonly salt?: Hex
  readonly amount?: string
  readonly sign?: (signature: Hex) => Hex
}

/** The first payment of a channel, whose payer may be a contract wallet of the buyer. */
async function signDeposit(buyer: ChannelBuyer, url: string, fault: Fault = {}): Promise<string> {
  const response = await fetch(url)
  const offer = JSON.parse(Buffer.from(response.headers.get('payment-required')!, 'base64').toString())
  const accepted = offer.accepts.find(({ scheme }: { scheme: string }) => scheme === 'batch-settlement')
  const own = buyer.scheme.buildChannelConfig(accepted)
  const config = { ...own, payer: (fault.payer ?? own.payer) as Hex, salt: fault.salt ?? own.salt }
  const id = computeChannelId(config, network)
  const validBefore = fault.validBefore ?? BigInt(Math.floor(Date.now() / 1_000) + 300)
  const permit2 = {
    from: fault.from ?? config.payer.toLowerCase(),
    token: usdc.toLowerCase(),
    amount: 100_000n,
    spender: PERMIT2_COLLECTOR_ADDRESS.toLowerCase(),
    nonce: BigInt(`0x${randomBytes(32).toString('hex')}`),
    channelId: id,
    ...fault.permit,
  }
  const signed = await buyer.account.signTypedData(permit2DepositTypedData(network, { validBefore, permit2 }))
  const permit2Authorization = {
    from: permit2.from,
    permitted: { token: permit2.token, amount: String(permit2.amount) },
    spender: permit2.spender,
    nonce: String(permit2.nonce),
    deadline: String(validBefore),
    witness: { channelId: permit2.channelId },
    signature: fault.sign?.(signed) ?? signed,
  }
  const signature = await buyer.account.signTypedData(voucherTypedData(network, id, 10_000n))
  const payload = {
    type: 'deposit',
    channelConfig: config,
    voucher: { channelId: id, maxClaimableAmount: '10000', signature },
    deposit: { amount: fault.amount ?? '100000', authorization: { permit2Authorization } },
  }
  const payment = { x402Version: 2, accepted, payload, resource: offer.resource }
  return Buffer.from(JSON.stringify(payment)).toString('base64')
}

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const withV = (signature: Hex, v: string): Hex => `${signature.slice(0, -2)}${v}` as Hex
const isEven = (signature: Hex) => signature.endsWith('1b')
function highS(signature: Hex): Hex {
  const twin = (ORDER - BigInt(`0x${signature.slice(66, 130)}`)).toString(16).padStart(64, '0')
  return `${signature.slice(0, 66)}${twin}${isEven(signature) ? '1c' : '1b'}` as Hex
}

t.test('a permit that is not exactly for this deposit is refused before anything is sent', async (t) => {
  const { url, buyer, chain, evm, sent, api } = await startSale(t)
  await chain.allowPermit2(buyer.address as Hex)
  const stranger = privateKeyToAddress(generatePrivateKey()).toLowerCase()
  const before = await sent()
  const now = BigInt(Math.floor(Date.now() / 1_000))
  const cases: [what: string, fault: Fault, reason: RegExp][] = [
    ['another channel', { permit: { channelId: `0x${'ab'.repeat(32)}` } }, /channel_id_mismatch/],
    ['another spender', { permit: { spender: stranger } }, /permit2_invalid_spender/],
    ['another token', { permit: { token: stranger } }, /token_mismatch/],
    ['another amount', { permit: { amount: 100_001n } }, /permit2_amount_mismatch/],
    ['another payer', { from: stranger }, /permit2_invalid_signature/],
    ['a foreign wallet as the payer', { payer: stranger }, /permit2_invalid_signature/],
    ['too little', { permit: { amount: 9_999n }, amount: '9999' }, /deposit_below_min_deposit/],
    ['expired', { validBefore: now - 1n }, /permit2_deadline_expired/],
    ['expiring', { validBefore: now + 4n }, /permit2_deadline_expired/],
    ['a high s', { sign: highS }, /permit2_invalid_signature/],
    ['another v', { sign: (one) => withV(one, isEven(one) ? '1c' : '1b') }, /permit2_invalid_signature/],
    ['a broken signature', { sign: () => `0x${'11'.repeat(65)}` }, /permit2_invalid_signature/],
  ]
  for (const [what, fault, reason] of cases) {
    const refused = await present(`${url}?n=1`, await signDeposit(buyer, url, fault))
    t.match(refused, { status: 402, body: { error: { reason } } }, `${what}: ${refused.text}`)
  }
  t.equal(await sent(), before)
  t.equal(api.calls.length, 0)
  t.equal(await evm.balance(buyer.address), 50_000_000n)
  const hardware = await signDeposit(buyer, url, { sign: (one) => withV(one, isEven(one) ? '00' : '01') })
  t.equal((await present(`${url}?n=1`, hardware)).status, 200, 'v 0 or 1, as hardware wallets write it')
})

t.test('a used nonce deposits nothing, and a landed deposit buys one call', async (t) => {
  const { url, buyer, chain, evm, sent, api } = await startSale(t)
  await chain.allowPermit2(buyer.address as Hex)
  const payment = await signDeposit(buyer, url, { permit: { nonce: 7n } })
  t.equal((await present(`${url}?n=1`, payment)).status, 200)
  const after = await sent()
  t.match(await present(`${url}?n=1`, payment), { status: 200 }, 'the stored response')
  t.match(await present(`${url}?n=2`, payment), {
    status: 402,
    body: { error: { reason: /amount_mismatch/ } },
  })
  t.equal(await sent(), after)
  t.equal(api.calls.length, 1)
  const other = await signDeposit(buyer, url, { permit: { nonce: 7n }, salt: `0x${'22'.repeat(32)}` })
  const used = await present(`${url}?n=3`, other)
  t.match(used, { status: 402, body: { error: { reason: 'permit2_invalid_nonce' } } }, used.text)
  t.equal(await sent(), after)
  const poor = await newChannelBuyer({ evm: chain } as Product['chains'], 50_000n)
  await chain.allowPermit2(poor.address as Hex)
  const tooMuch = await present(`${url}?n=3`, await signDeposit(poor, url))
  t.match(tooMuch, { status: 402, body: { error: { reason: /insufficient_balance/ } } }, tooMuch.text)
  t.equal(await evm.balance(buyer.address), 49_900_000n)
})

t.test('of two deposits at once that need the same allowance, one is sent', async (t) => {
  const { url, buyer, chain, evm, sent } = await startSale(t)
  await chain.allowPermit2(buyer.address as Hex, 100_000n)
  const before = await sent()
  const both = await Promise.all(
    ['11', '22'].map(async (byte) => {
      const payment = await signDeposit(buyer, url, { salt: `0x${byte.repeat(32)}` as Hex })
      return present(`${url}?n=${byte}`, payment)
    }),
  )
  t.strictSame(both.map(({ status }) => status).toSorted(), [200, 412])
  t.equal(await sent(), before + 1)
  t.equal(await evm.balance(buyer.address), 49_900_000n)
})

t.test('a deposit by the other method is refused', async (t) => {
  const { url, buyer, chain, product } = await startSale(t)
  await chain.allowPermit2(buyer.address as Hex)
  const payment = JSON.parse(Buffer.from(await signDeposit(buyer, url), 'base64').toString())
  const { deposit } = payment.payload
  const encoded = () => Buffer.from(JSON.stringify(payment)).toString('base64')
  const erc3009Authorization = {
    validAfter: '0',
    validBefore: '4102444800',
    salt: `0x${'11'.repeat(32)}`,
    signature: `0x${'11'.repeat(65)}`,
  }
  deposit.authorization.erc3009Authorization = erc3009Authorization
  t.match(await present(url, encoded()), { status: 400 }, 'both methods')
  deposit.authorization = { erc3009Authorization }
  t.match(await present(url, encoded()), {
    status: 402,
    body: { error: { reason: /permit2_authorization_required/ } },
  })
  deposit.authorization = { permit2Authorization: { from: buyer.address } }
  t.match(await present(url, encoded()), { status: 400 }, 'a permit without fields')
  t.equal(product.api.calls.length, 0)
})

t.test('a contract wallet deposits by Permit2, once it is deployed', async (t) => {
  const { url, buyer, chain, evm, sent, api } = await startSale(t)
  const wallet = await chain.smartWalletAddress(buyer.address as Hex)
  await chain.mintUsdc(wallet, 1_000_000n)
  await chain.allowPermit2(wallet)
  const undeployed = (signature: Hex) =>
    serializeErc6492Signature({
      address: chain.smartWalletFactory,
      data: chain.smartWalletCalldata(buyer.address as Hex),
      signature,
    })
  const early = await present(
    `${url}?n=1`,
    await signDeposit(buyer, url, { payer: wallet, sign: undeployed }),
  )
  t.match(early, { status: 402, body: { error: { reason: /permit2_invalid_signature/ } } }, early.text)
  const other = await newChannelBuyer({ evm: chain } as Product['chains'], 0n)
  const before = await sent()
  const second = await chain.deploySmartWallet(other.address as Hex)
  await chain.mintUsdc(second, 1_000_000n)
  await chain.allowPermit2(second)
  const broken = await signDeposit(other, url, { payer: second, sign: () => `0x${'11'.repeat(65)}` })
  t.match(await present(`${url}?n=2`, broken), { status: 402 })
  t.equal(await sent(), before, 'a signature that the wallet refuses costs no gas')
  const wrapped = await signDeposit(other, url, { payer: second })
  const bought = await present(`${url}?n=3`, wrapped)
  t.equal(bought.status, 200, bought.text)
  t.equal(await evm.balance(second), 900_000n)
  t.equal(api.calls.length, 1)
})
