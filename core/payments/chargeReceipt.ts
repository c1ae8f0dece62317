import type { ReceiptSigner } from '../ports/receiptSigner.ts'
import { receiptHeaders } from '../x402/header.ts'
import { offerReceiptName, type SignedReceipt, signReceipt } from '../x402/offerReceipt.ts'
import type { SettleResponse } from '../x402/types.ts'
import { issuedAtOf } from './purchase.ts'

/** A charge that the chain confirms. */
export type Charge = SettleResponse & { readonly success: true; readonly payer: string }

/** Bytes of a signed receipt in `PAYMENT-RESPONSE` without its `resourceUrl`, with the longest payer, network and transaction. */
const SIGNED_RECEIPT_BYTES = 1_000

/** Signs the receipts for one address. */
export class ReceiptSigning {
  readonly #signer: Pick<ReceiptSigner, 'sign'>
  readonly #resourceUrl: string
  readonly #namesTransaction: boolean
  /** Maximum bytes by which a signed receipt lengthens the header of the receipt. */
  readonly maxBytes: number

  /**
   * @param resourceUrl the address that is sold, as in the offer
   * @param namesTransaction whether the receipts name the transaction, which makes the buyer's payment easier to find on chain
   */
  constructor(signer: Pick<ReceiptSigner, 'sign'>, resourceUrl: string, namesTransaction: boolean) {
    this.#signer = signer
    this.#resourceUrl = resourceUrl
    this.#namesTransaction = namesTransaction
    this.maxBytes = SIGNED_RECEIPT_BYTES + Math.ceil((Buffer.byteLength(JSON.stringify(resourceUrl)) * 4) / 3)
  }

  /** The receipt of a purchase. The same purchase always gets the same receipt, so no database stores it. */
  sign({ network, payer, transaction }: Charge, purchaseId: string): SignedReceipt {
    return signReceipt(this.#signer, {
      version: 1,
      network,
      resourceUrl: this.#resourceUrl,
      payer,
      issuedAt: issuedAtOf(purchaseId),
      transaction: this.#namesTransaction ? transaction : '',
    })
  }
}

/** The receipt headers of a charged call. */
export class ChargeReceipt {
  readonly #version: 1 | 2
  readonly #charge: Charge
  readonly #purchaseId: string
  readonly #signing: ReceiptSigning | null

  /**
   * @param version x402 version of the payment
   * @param signing null if the gateway signs no receipts
   */
  constructor(version: 1 | 2, charge: Charge, purchaseId: string, signing: ReceiptSigning | null) {
    this.#version = version
    this.#charge = charge
    this.#purchaseId = purchaseId
    this.#signing = signing
  }

  get transaction(): string {
    return this.#charge.transaction
  }

  /** For a response that reports a failure after the charge. Nothing is signed, because the seller has not delivered. */
  get headers(): readonly string[] {
    return receiptHeaders(this.#version, this.#charge)
  }

  /** For the seller's response. Only a response that delivers what was bought has a signed receipt. */
  headersFor(status: number): readonly string[] {
    if (this.#signing === null || status >= 400) return this.headers
    const receipt = this.#signing.sign(this.#charge, this.#purchaseId)
    const extension = { info: { receipt }, schema: { required: ['receipt'] } }
    return receiptHeaders(this.#version, { ...this.#charge, extensions: { [offerReceiptName]: extension } })
  }
}
