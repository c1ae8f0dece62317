import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createEvmBuyer } from '../../buyer/chains/evmBuyer.ts'
import { payForUrl } from '../../buyer/payForUrl.ts'
import { createPaymentFiles } from '../../cli/pay/paymentFiles.ts'
import { reportOf, startPayingVault } from './helpers/payingVault.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, api, payTo } = product
const [chain] = chains.both
const vault = await startPayingVault(t, chains)
const { rpcUrl } = chains.evm
const linkAt = (slug: string, upTo: string) =>
  product.addLink(slug, upTo, { price: { upTo, by: 'header', otherwise: upTo } })
const cheap = await linkAt('cheap', '0.04')
const dear = await linkAt('dear', '0.25')

const states = (amount: string) =>
  api.answerWith((_request, response) => {
    const head = {
      'content-type': 'application/json',
      'settlement-overrides': JSON.stringify({ amount }),
    }
    response.writeHead(200, head).end('{"metered":true}')
  })

t.test('a wallet pays what its call has used, after it has allowed Permit2', async (t) => {
  const privateKey = generatePrivateKey()
  const { address } = privateKeyToAccount(privateKey)
  await chains.evm.mintUsdc(address, 1_000_000n)
  const payments = createPaymentFiles(t.testdir())
  const pay = (url: string) =>
    payForUrl({ url, wallets: { eip155: createEvmBuyer({ privateKey, rpcUrl }) }, rpcUrl, payments })
  states('15000')
  const called = api.calls.length
  t.match(await pay(`${cheap}?n=1`), { outcome: 'refused', message: /Permit2 may move 0.00 USDC/ })
  t.equal(api.calls.length, called)
  await chains.evm.allowPermit2(address)

  const before = await chain.balance(payTo(chain))
  const report = await pay(`${cheap}?n=1`)
  t.match(report, {
    outcome: 'paid',
    isVerified: true,
    charged: 'yes',
    chargedAmount: '0.015',
    payment: { scheme: 'upto', amount: '0.04' },
    attempts: 1,
  })
  t.equal((await chain.balance(payTo(chain))) - before, 15_000n)
  t.ok((await chain.transfersTo(payTo(chain))).includes(report.transaction!))

  states('0')
  t.match(await pay(`${cheap}?n=2`), {
    outcome: 'paid',
    isVerified: true,
    charged: 'not_yet',
    chargedAmount: '0.00',
    transaction: null,
  })
  t.equal((await chain.balance(payTo(chain))) - before, 15_000n)
})

t.test(
  'a vault signs the most by its rules and counts it, and the seller charges what was used',
  async (t) => {
    states('10000')
    const called = api.calls.length
    const refused = await reportOf(vault.pay(`${cheap}?n=3`, chain))
    t.match(refused, { outcome: 'refused', message: /Permit2 may move 0.00 USDC/ })
    t.strictSame(await vault.signings(), [], 'the vault was not asked')
    t.equal(api.calls.length, called)
    await chains.evm.allowPermit2(vault.addresses.evm as `0x${string}`)

    const balance = await chain.balance(vault.addresses.evm)
    const report = await reportOf(vault.pay(`${cheap}?n=3`, chain))
    t.match(report, {
      outcome: 'paid',
      isVerified: true,
      chargedAmount: '0.01',
      payment: { scheme: 'upto', amount: '0.04', payer: vault.addresses.evm },
    })
    t.equal(balance - (await chain.balance(vault.addresses.evm)), 10_000n)
    t.strictSame(await vault.used(chain), { spent: 40_000n, reserved: 0n }, 'the most counts')
    t.strictSame(await vault.signings(), ['AUTO_APPROVED'])
  },
)

t.test('above its limit the owner sees the most, to whom, by which account and until when', async (t) => {
  states('100000')
  const balance = await chain.balance(vault.addresses.evm)
  const paying = vault.pay(`${dear}?n=4`, chain)
  const question = await vault.question()
  t.match(question, { amount: '0.25', currency: 'USDC', opaque: false, recipient: payTo(chain) })
  const offer = await (await fetch(`${dear}?n=4`)).json()
  const { facilitatorAddress } = (offer as { accepts: { extra: Record<string, string> }[] }).accepts[0]!.extra
  t.match(
    question.effects.join('\n'),
    `Send at most 0.25 USDC to ${payTo(chain)}, submitted by ${facilitatorAddress} within 300 seconds after the vault signs it.`,
  )
  await vault.approve(question)
  t.match(await reportOf(paying), { outcome: 'paid', isVerified: true, chargedAmount: '0.10' })
  t.equal(balance - (await chain.balance(vault.addresses.evm)), 100_000n)
  t.strictSame(await vault.used(chain), { spent: 290_000n, reserved: 0n })
  t.ok(await vault.verify())
})

t.test('the ledger agrees with the chain', async (t) => {
  const findings = await product.doctor()
  t.strictSame(
    findings.filter(({ ok }) => !ok),
    [],
  )
})
