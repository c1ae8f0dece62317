import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export type Answer = (request: IncomingMessage, response: ServerResponse) => void

/** The API that a test sells. Health probes are answered and not counted. */
export interface Api {
  readonly url: string
  /** Targets of the calls that came through a link, in order: those with a query. */
  readonly calls: readonly string[]
  /** How it answers from now on. */
  answerWith(respond: Answer): void
  /** Calls back as soon as a call comes in, before it is answered. */
  onCall(listener: (target: string) => void): void
}

/** 200 with the target that came. */
export const answerWell: Answer = (request, response) => {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ target: request.url }))
}

export const responseStatus =
  (status: number): Answer =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end('{"error":"broken"}')
  }

export async function startApi(t: Pick<Test, 'teardown'>): Promise<Api> {
  const calls: string[] = []
  let respond = answerWell
  let listener: ((target: string) => void) | undefined
  // Idle connections stay open: a process without time would end one whose next request it has not read yet.
  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    request.resume()
    if (!request.url!.includes('?')) return answerWell(request, response)
    calls.push(request.url!)
    listener?.(request.url!)
    respond(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    answerWith: (next) => {
      respond = next
    },
    onCall: (next) => {
      listener = next
    },
  }
}
