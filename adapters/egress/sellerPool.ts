import type { UpstreamHandler, UpstreamRequest } from '../../core/ports/egress.ts'
import { Http1Pool, type Http1PoolOptions } from './http1/pool.ts'
import { isPlain } from './http1/writeHead.ts'
import type { OriginPool } from './poolRegistry.ts'

/**
 * The connections to one seller: plain requests go over the client in http1/, which costs less
 * than undici (bench/free.ts); upgrades and streamed bodies over an undici pool, made when the first one comes. As
 * many connections are opened as there are requests at once: whoever makes them counts.
 */
export class SellerPool implements OriginPool {
  readonly #plain: Http1Pool
  readonly #makeOther: () => OriginPool
  #other: OriginPool | undefined

  constructor(options: Http1PoolOptions, makeOther: () => OriginPool) {
    this.#plain = new Http1Pool(options)
    this.#makeOther = makeOther
  }

  dispatch(request: UpstreamRequest, handler: UpstreamHandler): boolean {
    if (isPlain(request)) return this.#plain.dispatch(request, handler)
    this.#other ??= this.#makeOther()
    return this.#other.dispatch(request, handler)
  }

  async close(): Promise<void> {
    await Promise.all([this.#plain.close(), this.#other?.close()])
  }

  async destroy(error: Error): Promise<void> {
    await Promise.all([this.#plain.destroy(error), this.#other?.destroy(error)])
  }
}
