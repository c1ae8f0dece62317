import { LRUCache } from 'lru-cache'
import type { Clock } from '../ports/clock.ts'
import type { ReceiptSigner } from '../ports/receiptSigner.ts'
import { type OfferPayload, offerReceiptName, type SignedOffer, signOffer } from '../x402/offerReceipt.ts'
import type { Offer } from './offers.ts'

/** Maximum number of 402 responses whose signed offers are kept, at up to two kilobytes each. */
const MAX_SIGNED = 4_096

/** Signed offers as a member of the `extensions` of a 402. */
export interface SignedText {
  readonly text: string
  /** Time after which the offers have to be signed again, in ms since 1970. */
  readonly freshUntilMs: number
}

/**
 * Signs the offers of 402 responses. A signature takes about 50 µs, so it is made once and reused until half of its time has passed.
 * An offer that a buyer gets is therefore valid for at least `validMs`.
 */
export class OfferSigning {
  readonly #signer: Pick<ReceiptSigner, 'sign'>
  readonly #clock: Clock
  readonly #validMs: number
  readonly #signed = new LRUCache<object, SignedText>({ max: MAX_SIGNED })

  /** @param validMs how long a signed offer is valid at least, in ms */
  constructor(signer: Pick<ReceiptSigner, 'sign'>, clock: Clock, validMs: number) {
    this.#signer = signer
    this.#clock = clock
    this.#validMs = validMs
  }

  isFresh({ freshUntilMs }: Pick<SignedText, 'freshUntilMs'>): boolean {
    return this.#clock.now() < freshUntilMs
  }

  /**
   * The signed offers of a 402.
   *
   * @param challenges the object that makes the 402, which always has the same address and offers
   */
  of(challenges: object, resourceUrl: () => string, offers: readonly Offer[]): SignedText {
    const known = this.#signed.get(challenges)
    if (known !== undefined && this.isFresh(known)) return known
    const nowMs = this.#clock.now()
    const validUntil = Math.ceil((nowMs + 2 * this.#validMs) / 1_000)
    const sign: Sign = (payload, acceptIndex) => signOffer(this.#signer, payload, acceptIndex)
    const signed = {
      text: textOf(resourceUrl(), offers, validUntil, sign),
      freshUntilMs: nowMs + this.#validMs,
    }
    this.#signed.set(challenges, signed)
    return signed
  }
}

type Sign = (payload: OfferPayload, acceptIndex: number) => SignedOffer

/** Size of the signed offers of a 402, in bytes. */
export const signedBytes = (resourceUrl: string, offers: readonly Offer[]): number =>
  Buffer.byteLength(textOf(resourceUrl, offers, 9_999_999_999, unsigned))

const unsigned: Sign = (payload, acceptIndex) => ({
  format: 'eip712',
  acceptIndex,
  payload,
  signature: `0x${'0'.repeat(130)}`,
})

function textOf(resourceUrl: string, offers: readonly Offer[], validUntil: number, sign: Sign): string {
  const signed = offers.map(({ terms: { scheme, network, asset, payTo, amount } }, i) =>
    sign({ version: 1, resourceUrl, scheme, network, asset, payTo, amount, validUntil }, i),
  )
  const extension = { info: { offers: signed }, schema: { required: ['offers'] } }
  return `${JSON.stringify(offerReceiptName)}:${JSON.stringify(extension)}`
}
