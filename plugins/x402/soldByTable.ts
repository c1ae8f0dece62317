import { TollgateError } from '../../core/errors/error.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { CompiledTable } from '../../core/pricing/priceTable.ts'
import { sells } from './channels.ts'
import { type Paying, SoldByRequest, type SoldByRequestDeps } from './soldByRequest.ts'

/**
 * Maximum size of a body that decides a price of a table, in bytes. The gateway parses the body before the call is paid, and a hostile
 * body of this size takes about 20 ms.
 */
const MAX_PRICED_BODY_BYTES = 262_144

/** The hooks of a link with a table of prices. */
export class SoldByTable extends SoldByRequest {
  readonly #table: CompiledTable

  constructor(deps: SoldByRequestDeps, table: CompiledTable) {
    super(deps)
    this.#table = table
  }

  override pay(x: Exchange): Paying {
    if (!sells(x.link, x.method)) return this.payRefund(x)
    if (!this.#table.needsBody || !x.hasBody) return this.#pay(x)
    return this.withBody(x, MAX_PRICED_BODY_BYTES, () => this.#pay(x))
  }

  #pay(x: Exchange): Paying {
    let price: string
    try {
      price = this.#priceOf(x)
    } catch (error) {
      return this.refuse(x, error)
    }
    return this.payAt(x, price)
  }

  /** The price of exactly the request that the gateway forwards. */
  #priceOf(x: Exchange): string {
    if (this.#table.needsBody && x.hasBody) assertRead(x)
    const { method, subPath, query, body } = x
    const price = this.#table.priceOf({ method, subPath, query, rawHeaders: x.transport.rawHeaders, body })
    if (price !== null) return price
    throw new TollgateError(
      'request_not_sold',
      "The price of this link depends on the request, and the seller has set no price for this request. Send a request that the link's description names. You were not charged.",
    )
  }
}

/** @throws `payload_too_large`, `length_required` */
function assertRead(x: Exchange): void {
  const tooLarge = `The price of this link depends on the body. Expected a body of at most ${MAX_PRICED_BODY_BYTES} bytes, got more. You were not charged.`
  if (x.body !== null) {
    if (x.body.length > MAX_PRICED_BODY_BYTES) throw new TollgateError('payload_too_large', tooLarge)
    return
  }
  if (x.header('content-length') === undefined) throw new TollgateError('length_required')
  throw new TollgateError('payload_too_large', tooLarge)
}
