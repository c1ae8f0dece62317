import t from 'tap'
import { newBuyer, present, read } from './helpers/buyers.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, api, payTo, tollgate } = product
const curveOrder = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

interface Payment {
  x402Version: number
  payload: { signature?: string; authorization?: Record<string, string>; transaction?: string }
  accepted: Record<string, unknown>
  resource?: unknown
}
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')
const upper = (hex: string) => `0x${hex.slice(2).toUpperCase()}`

/** The other signature of the same authorisation: ECDSA has two (s and n − s). */
function mirrored(signature: string): string {
  const [r, s, v] = [signature.slice(2, 66), BigInt(`0x${signature.slice(66, 130)}`), signature.slice(130)]
  return `0x${r}${(curveOrder - s).toString(16).padStart(64, '0')}${v === '1b' ? '1c' : '1b'}`
}

/** The same payment in other clothes: what a chain would take as the same transfer. */
function disguises(header: string, v1Network: string): Record<string, string> {
  const payment: Payment = JSON.parse(Buffer.from(header, 'base64').toString())
  const { payload, accepted } = payment
  const reversed = Object.fromEntries(Object.entries(payment).reverse())
  const common = {
    'keys in another order': encode(reversed),
    'other blanks': Buffer.from(JSON.stringify(payment, null, 3)).toString('base64'),
    'another resource': encode({
      ...payment,
      resource: { url: 'https://else.where/', description: '', mimeType: '' },
    }),
    'other words about the terms': encode({ ...payment, accepted: { ...accepted, amount: '1', payTo: 'x' } }),
    'version 1': encode({ x402Version: 1, scheme: 'exact', network: v1Network, payload }),
  }
  const { authorization, signature } = payload
  if (authorization === undefined) return common
  const withFields = (change: Record<string, string>) =>
    encode({ ...payment, payload: { ...payload, authorization: { ...authorization, ...change } } })
  return {
    ...common,
    'the payer in lower case': withFields({ from: authorization['from']!.toLowerCase() }),
    'the payee in lower case': withFields({ to: authorization['to']!.toLowerCase() }),
    'the nonce in upper case': withFields({ nonce: upper(authorization['nonce']!) }),
    'the mirrored signature': encode({
      ...payment,
      payload: { ...payload, signature: mirrored(signature!) },
    }),
    'the signature in upper case': encode({
      ...payment,
      payload: { ...payload, signature: upper(signature!) },
    }),
    'numbers with zeros in front': withFields({ value: `0${authorization['value']}` }),
  }
}

for (const chain of chains.both) {
  t.test(`a payment in other clothes is the same payment on ${chain.name}`, async (t) => {
    const a = await product.addLink(`clothes-a-${chain.name}`)
    const b = await product.addLink(`clothes-b-${chain.name}`)
    const buyer = await newBuyer(chains, chain)
    const payment = await buyer.sign(`${a}?n=1`)
    const first = await present(`${a}?n=1`, payment)
    t.equal(first.status, 200, first.text)
    const calls = api.calls.length
    const forms = disguises(payment, chain.name === 'evm' ? 'base-sepolia' : 'solana-devnet')
    for (const [name, form] of Object.entries(forms)) {
      const elsewhere = await present(`${b}?n=1`, form)
      t.ok([400, 402, 409].includes(elsewhere.status), `${name}: ${elsewhere.status} on another link`)
      const same = await present(`${a}?n=1`, form)
      t.ok(
        [400, 402].includes(same.status) || same.text === first.text,
        `${name}: the stored answer or a refusal`,
      )
      const header = { headers: { 'x-payment': form } }
      const old = await read(await fetch(`${b}?n=1`, header))
      t.ok([400, 402, 409].includes(old.status), `${name} in X-PAYMENT: ${old.status}`)
    }
    t.equal(api.calls.length, calls, 'the seller never worked again')
    t.equal((await chain.transfersTo(payTo(chain))).length, 1)
    t.equal(await chain.balance(payTo(chain)), 10_000n)
  })

  t.test(`eight forms of one payment at the same moment are one call on ${chain.name}`, async (t) => {
    const url = await product.addLink(`forms-${chain.name}`)
    const buyer = await newBuyer(chains, chain)
    const payment = await buyer.sign(`${url}?n=2`)
    const forms = Object.values(disguises(payment, chain.name === 'evm' ? 'base-sepolia' : 'solana-devnet'))
    const [calls, transfers] = [api.calls.length, (await chain.transfersTo(payTo(chain))).length]
    const responses = await Promise.all([payment, ...forms].map((form) => present(`${url}?n=2`, form)))
    t.ok(
      responses.every(({ status }) => [200, 400, 402].includes(status)),
      responses.map(({ status }) => status).join(),
    )
    t.equal(new Set(responses.flatMap(({ body }) => body._svc?.purchaseId ?? [])).size, 1)
    t.equal(api.calls.length - calls, 1)
    t.equal((await chain.transfersTo(payTo(chain))).length - transfers, 1)
  })
}

t.test('the books agree with the chains', async (t) => {
  t.match(await tollgate.stack.store.purchases.ledgerCheck(), { purchases: 4, unresolvedPayments: 0 })
  t.strictSame(
    (await product.doctor()).filter((finding) => !finding.ok),
    [],
  )
})
