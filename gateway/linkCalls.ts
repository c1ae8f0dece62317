import { TollgateError } from '../core/errors/error.ts'
import type { LinkAnswer, LinkCall, LinkCalls } from '../core/ports/linkCalls.ts'
import { parseTarget } from './head.ts'
import { HeldDoor } from './heldDoor.ts'
import type { Router } from './router.ts'

/** A link's former address leads to its present one, which may be another's former one by then. */
const MAX_MOVES = 2
/** RFC 9110, sections 5.1 and 5.5. */
const headerName = /^[\w!#$%&'*+.^`|~-]{1,256}$/
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/
const methodForm = /^[A-Z]{1,32}$/

/**
 * Calls through a {@link Router}: what is behind it can't tell them from calls of the public listener.
 *
 * @param maxHeaderBytes as of the listener: a seller may close the connection at a larger head, which would count as its fault
 */
export function createLinkCalls(router: Router, maxHeaderBytes: number): LinkCalls {
  async function call(request: LinkCall, moves: number): Promise<LinkAnswer | undefined> {
    const { target: url, signal, payment, body, clientIp } = request
    const target = parseTarget(url)
    if (typeof target === 'string') throw new TollgateError('bad_request', target)
    const length = body === null ? [] : ['Content-Length', String(body.length)]
    const door = new HeldDoor({ ...request, headers: [...request.headers, ...length] })
    if (signal.aborted) return undefined
    const hangUp = () => door.hangUp()
    signal.addEventListener('abort', hangUp, { once: true })
    const head = {
      paymentHeader: payment?.header ?? null,
      x402Version: payment?.x402Version ?? 2,
      passed: null,
      hasBody: body !== null && body.length > 0,
      hasOrigin: false,
    } as const
    let movedTo: string | undefined
    const onMoved = (present: string) => {
      movedTo = present
      door.hangUp()
    }
    if (target === undefined) router.notFound({ door, head })
    else
      router.route({
        ...{ door, head, target, url, clientIp },
        ...(body !== null && { body }),
        ...(moves < MAX_MOVES && { onMoved }),
      })
    const answer = await door.answer
    signal.removeEventListener('abort', hangUp)
    return movedTo === undefined ? answer : call({ ...request, target: movedTo }, moves + 1)
  }

  return {
    async call(request) {
      assertHead(request, maxHeaderBytes)
      return call(request, 0)
    },
  }
}

function assertHead({ method, target, headers, payment }: LinkCall, maxBytes: number): void {
  const parts = [method, target, ...headers, payment?.header ?? '']
  // As a head is written: each name and value with its two separators.
  const bytes = parts.reduce((sum, part) => sum + part.length + 2, 0)
  if (bytes > maxBytes)
    throw new TollgateError(
      'bad_request',
      `Expected path, query and headers of at most ${maxBytes} bytes, got ${bytes}.`,
    )
  if (!methodForm.test(method) || method === 'CONNECT' || method === 'TRACE')
    throw new TollgateError('bad_request', 'Expected a method such as GET or POST.')
  for (const [i, text] of headers.entries()) {
    if (i % 2 === 0 && !headerName.test(text))
      throw new TollgateError(
        'bad_request',
        'Expected names of headers to be tokens (RFC 9110, section 5.1).',
      )
    if (i % 2 === 1 && !headerValue.test(text))
      throw new TollgateError('bad_request', 'Expected values of headers without line ends and controls.')
  }
}
