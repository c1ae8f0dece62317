import { base58 } from '@scure/base'
import { createKeyPairSignerFromBytes } from '@solana/kit'
import { x402Client, x402HTTPClient } from '@x402/core/client'
import type { PaymentRequired } from '@x402/core/types'
import { ExactEvmScheme } from '@x402/evm'
import { appendPaymentIdentifierToExtensions } from '@x402/extensions/payment-identifier'
import { wrapFetchWithPayment as wrapV2 } from '@x402/fetch'
import { ExactSvmScheme } from '@x402/svm/exact/client'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { newSolanaSecret } from '../../../localnet/demoWallets.ts'
import type { Chain, Chains } from './chains.ts'

/** A wallet with money, and the ways in which unmodified clients pay with it. */
export interface Buyer {
  readonly chain: Chain
  readonly address: string
  /** 0x-hex, or base58 of 64 bytes. */
  readonly privateKey: string
  /** `@x402/fetch`: asks, signs, pays. */
  readonly fetchV2: typeof fetch
  /**
   * Asks for the offer and signs it with the client's own code, and sends nothing: `PAYMENT-SIGNATURE`'s value.
   * With `change`, the client is given other terms than those of the offer: what a cheat would sign.
   */
  sign(url: string, asset?: string, change?: object): Promise<string>
  /** The same for an offer that is known. */
  signOffer(offer: PaymentRequired): Promise<string>
  /** The same client with the extension `payment-identifier`, used as its package says: all of its payments have this id. */
  named(identifier: string): Pick<Buyer, 'fetchV2' | 'sign'>
}

/** @param amountAtomic USDC in the wallet, 6 decimals */
export const newBuyer = (chains: Chains, chain: Chain, amountAtomic = 50_000_000n): Promise<Buyer> =>
  chain.name === 'evm'
    ? newEvmBuyer(chains, chain, amountAtomic)
    : newSolanaBuyer(chains, chain, amountAtomic)

async function newEvmBuyer({ evm }: Chains, chain: Chain, amountAtomic: bigint): Promise<Buyer> {
  const privateKey = generatePrivateKey()
  const account = privateKeyToAccount(privateKey)
  await evm.mintUsdc(account.address, amountAtomic)
  const scheme = new ExactEvmScheme(account, { rpcUrl: evm.rpcUrl })
  return { ...payingWith(chain, scheme), address: account.address, privateKey }
}

async function newSolanaBuyer({ solana }: Chains, chain: Chain, amountAtomic: bigint): Promise<Buyer> {
  const secret = newSolanaSecret()
  const signer = await createKeyPairSignerFromBytes(secret)
  solana.mintUsdc(signer.address, amountAtomic)
  const scheme = new ExactSvmScheme(signer, { rpcUrl: solana.rpcUrl })
  return { ...payingWith(chain, scheme), address: signer.address, privateKey: base58.encode(secret) }
}

function payingWith(chain: Chain, scheme: ExactEvmScheme | ExactSvmScheme) {
  const schemes = [{ network: chain.network, client: scheme }]
  const plain = new x402HTTPClient(x402Client.fromConfig({ schemes }))
  // The client's own list of tokens has only USDC; a buyer who uses another token allows it.
  const careless = new x402HTTPClient(x402Client.fromConfig({ schemes, spendControls: false }))
  const encode = async (client: x402HTTPClient, offer: PaymentRequired) => {
    const payload = await client.createPaymentPayload(offer)
    return client.encodePaymentSignatureHeader(payload)['PAYMENT-SIGNATURE']!
  }
  const signing =
    (own: x402HTTPClient) =>
    async (url: string, asset?: string, change?: object): Promise<string> => {
      const client = asset === undefined && change === undefined ? own : careless
      const response = await fetch(url)
      const offer = client.getPaymentRequiredResponse(
        (name) => response.headers.get(name),
        await response.json(),
      )
      const entry = offer.accepts.find(
        ({ network, asset: token }) => network === chain.network && token === (asset ?? chain.usdc),
      )!
      const given = { ...offer, accepts: [merge(entry, change)] }
      return encode(client, given)
    }
  return {
    chain,
    signOffer: (offer: PaymentRequired) => encode(plain, offer),
    fetchV2: wrapV2(fetch, plain) as typeof fetch,
    sign: signing(plain),
    named(identifier: string) {
      const core = x402Client.fromConfig({ schemes })
      core.onBeforePaymentCreation(async ({ paymentRequired }) => {
        appendPaymentIdentifierToExtensions(paymentRequired.extensions ?? {}, identifier)
      })
      const client = new x402HTTPClient(core)
      return { fetchV2: wrapV2(fetch, client) as typeof fetch, sign: signing(client) }
    },
  }
}

const merge = <T extends { extra: object }>(
  entry: T,
  { extra = {}, ...change }: { extra?: object } = {},
): T => ({
  ...entry,
  ...change,
  extra: { ...entry.extra, ...extra },
})

/** What came back to a buyer, read whole. */
export interface Bought {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: {
    data?: unknown
    _svc?: { purchaseId: string; reviewToken: string }
    error?: BuyerError
    /** Of a purchase whose settlement is pending, or that is owed back. */
    purchaseId?: string
    transaction?: string
  }
  /** Decoded `PAYMENT-RESPONSE` or `X-PAYMENT-RESPONSE`; undefined without one. */
  readonly receipt: Receipt | undefined
}

export interface BuyerError {
  readonly code: string
  readonly reason?: string
  readonly message?: string
  readonly retryable?: boolean
}

export interface Receipt {
  readonly success: boolean
  readonly transaction: string
  readonly network: string
  readonly payer?: string
  readonly amount?: string
  readonly errorReason?: string
  /** Of payment channels. */
  readonly extra?: object
}

export async function read(response: Response): Promise<Bought> {
  const text = await response.text()
  const header = response.headers.get('payment-response') ?? response.headers.get('x-payment-response')
  const receipt = header === null ? undefined : JSON.parse(Buffer.from(header, 'base64').toString())
  const isJson = response.headers.get('content-type')?.startsWith('application/json')
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson ? JSON.parse(text) : {},
    receipt,
  }
}

/** Presents a payment that was signed before. */
export const present = async (url: string, payment: string): Promise<Bought> =>
  read(await fetch(url, { headers: { 'payment-signature': payment } }))
