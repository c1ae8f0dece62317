import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { PRICE_PARAMETER } from '../../core/http/loopMark.ts'
import type { Exchange } from '../../core/plugin/exchange.ts'
import type { Reply } from '../../core/plugin/gateway.ts'
import { factsOf, MAX_FACT_BODY_BYTES } from './requestFacts.ts'
import type { LinkPrices } from './sellersPrices.ts'
import { isPaying, type Paying, SoldByRequest, type SoldByRequestDeps } from './soldByRequest.ts'

/** The hooks of a link whose prices a price server of the seller states. */
export class SoldByQuery extends SoldByRequest {
  readonly #prices: LinkPrices
  readonly #headers: readonly string[]

  /** @param headers names of the headers that the facts include, in lower case */
  constructor(deps: SoldByRequestDeps, prices: LinkPrices, headers: readonly string[]) {
    super(deps)
    this.#prices = prices
    this.#headers = headers
  }

  override pay(x: Exchange): Paying {
    if (x.header('cdn-loop')?.includes(PRICE_PARAMETER) === true)
      throw new TollgateError(
        'loop_detected',
        'Expected a call, got a request for a price. A link whose prices a server states cannot be a price server.',
      )
    return x.hasBody ? this.withBody(x, MAX_FACT_BODY_BYTES, () => this.#pay(x)) : this.#pay(x)
  }

  async #pay(x: Exchange): Promise<Reply | void> {
    const facts = () => factsOf(x, this.#headers)
    let key: string
    try {
      key = this.#prices.keyOf(facts())
    } catch (error) {
      return this.refuse(x, error)
    }
    const offered = isPaying(x) ? this.#prices.offeredFor(key) : []
    for (const price of offered) if (await this.#accepts(x, price)) return
    let price: string
    try {
      // Another process may have offered the current price.
      price = await this.#prices.priceFor(key, facts)
    } catch (error) {
      if (offered.length === 0) return this.refuse(x, error)
      price = offered[0]!
    }
    return this.payAt(x, price)
  }

  /** Whether the call's payment pays this price and can be claimed. */
  async #accepts(x: Exchange, price: string): Promise<boolean> {
    try {
      await this.payAt(x, price)
    } catch (error) {
      if (isTollgateError(error) && error.code === 'invalid_payment') return false
      throw error
    }
    return x.payment !== null && x.payment.unclaimable === null
  }
}
