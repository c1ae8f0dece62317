import type { UpstreamController, UpstreamHandler, UpstreamRequest } from '../../../core/ports/egress.ts'

/** What carries a request: the connection, as far as its controller needs it. */
interface Carrier {
  pause(): void
  resume(): void
  abort(reason: Error): void
}

/** One request on its way: what its handler holds as the controller. */
export class Http1Exchange implements UpstreamController {
  readonly request: UpstreamRequest
  readonly handler: UpstreamHandler
  rawHeaders: readonly string[] | null = null
  /** The connection that carries it; null while it waits, and after its end. */
  connection: Carrier | null = null

  constructor(request: UpstreamRequest, handler: UpstreamHandler) {
    this.request = request
    this.handler = handler
  }

  pause(): void {
    this.connection?.pause()
  }

  resume(): void {
    this.connection?.resume()
  }

  abort(reason: Error): void {
    this.connection?.abort(reason)
  }
}
