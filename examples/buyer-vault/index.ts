/**
 * Buys one call of a paid link from a vault's wallet: no key in this program, no library, three HTTP requests.
 *
 *   LINK_URL=http://localhost:8080/api/link/demo/weather VAULT_TOKEN=vat_… node examples/buyer-vault/index.ts
 */
const { LINK_URL, VAULT_URL = 'http://127.0.0.1:8420', VAULT_TOKEN, MAX_USDC = '0.50' } = process.env
if (!LINK_URL || !VAULT_TOKEN) throw new Error('Expected LINK_URL and VAULT_TOKEN in the environment.')

const unpaid = await fetch(LINK_URL)
if (unpaid.status !== 402) throw new Error(`Expected a 402 with the price, got ${unpaid.status}.`)
const paymentHeader = await signPayment(await unpaid.json())

const response = await fetch(LINK_URL, { headers: { 'payment-signature': paymentHeader } })
const receipt = response.headers.get('payment-response')
const answer = (await response.json()) as { data?: unknown; error?: unknown }
console.log(
  JSON.stringify({
    status: response.status,
    data: answer.data,
    transaction: receipt && JSON.parse(atob(receipt)).transaction,
    error: answer.error,
  }),
)
if (!response.ok) process.exitCode = 1

/**
 * The vault builds the payment. While its owner's approval is open it responds with 202, and the same request
 * is repeated.
 */
async function signPayment(offer: unknown): Promise<string> {
  const request = {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${VAULT_TOKEN}`,
      // One purchase, regardless of the number of requests.
      'idempotency-key': crypto.randomUUID(),
    },
    body: JSON.stringify({
      payment_required: offer,
      max_amount: MAX_USDC,
      url: LINK_URL,
      agent_name: 'buyer-vault',
    }),
  }
  for (;;) {
    const signed = await fetch(`${VAULT_URL}/v1/vault/sign-payment`, request)
    const body = (await signed.json()) as Record<string, string> & { error: Record<string, string> }
    if (signed.status === 200) return body['payment_header']!
    if (signed.status !== 202) throw new Error(`${body.error['code']}: ${body.error['message']}`)
    console.error(`Waiting for the owner: tollgate vault approve ${body['approval_id']}`)
  }
}
