import type { UpstreamController, UpstreamHandler, UpstreamRequest } from '../../core/ports/egress.ts'
import { MAX_INTERIM, tooManyInterim } from './http1/connection.ts'
import type { OriginPool } from './http1/pool.ts'

/** A pool that aborts a request with too many interim responses. */
export class InterimLimitedPool implements OriginPool {
  readonly #pool: OriginPool

  constructor(pool: OriginPool) {
    this.#pool = pool
  }

  dispatch(request: UpstreamRequest, handler: UpstreamHandler): boolean {
    return this.#pool.dispatch(request, new InterimLimitedHandler(handler))
  }

  close(): Promise<void> {
    return this.#pool.close()
  }

  destroy(error: Error): Promise<void> {
    return this.#pool.destroy(error)
  }
}

class InterimLimitedHandler implements UpstreamHandler {
  #interim = 0
  readonly #handler: UpstreamHandler

  constructor(handler: UpstreamHandler) {
    this.#handler = handler
  }

  onRequestStart(controller: UpstreamController): void {
    this.#handler.onRequestStart(controller)
  }

  onResponseStart(...args: Parameters<UpstreamHandler['onResponseStart']>): void {
    const [controller, status] = args
    if (status < 200 && ++this.#interim > MAX_INTERIM) return controller.abort(tooManyInterim())
    this.#handler.onResponseStart(...args)
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    this.#handler.onResponseData(controller, chunk)
  }

  onResponseEnd(controller: UpstreamController): void {
    this.#handler.onResponseEnd(controller)
  }

  onResponseError(controller: UpstreamController | null, error: Error): void {
    this.#handler.onResponseError(controller, error)
  }

  onRequestUpgrade(...args: Parameters<NonNullable<UpstreamHandler['onRequestUpgrade']>>): void {
    this.#handler.onRequestUpgrade!(...args)
  }
}
