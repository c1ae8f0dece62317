import {
  basicAuthorization,
  type CallNode,
  lateMessage,
  longMessage,
  type NodeRequest,
  NotAnswered,
} from './post.ts'

/** Makes requests with `fetch`, which uses the environment's proxy if Node is configured to do so. */
export function requestByFetch(fetch: typeof globalThis.fetch): CallNode {
  return async (request) => {
    const { body, maxResponseBytes } = request
    try {
      const url = new URL(request.url)
      const authorization = basicAuthorization(url)
      // `fetch` refuses URLs with credentials.
      url.username = url.password = ''
      const response = await fetch(url.href, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
        body,
        redirect: 'error',
        signal: signalOf(request),
      })
      return { status: response.status, text: await readText(response, maxResponseBytes) }
    } catch (error) {
      throw error instanceof NotAnswered ? error : toNotAnswered(error)
    }
  }
}

/** The signal that ends a request. The timeout is rounded, because `AbortSignal.timeout` accepts only whole ms. */
function signalOf({ timeoutMs, signal }: NodeRequest): AbortSignal {
  const limit = AbortSignal.timeout(Math.ceil(timeoutMs))
  return signal === undefined ? limit : AbortSignal.any([signal, limit])
}

async function readText(response: Response, maxResponseBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop cancels the body.
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxResponseBytes) throw new NotAnswered('long', longMessage(maxResponseBytes))
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const brokenConnection = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

/** Turns an error into a {@link NotAnswered}. The message of an error without a cause may quote the URL, so it is left out. */
function toNotAnswered(error: unknown): NotAnswered {
  if (error instanceof DOMException)
    return error.name === 'TimeoutError'
      ? new NotAnswered('late', lateMessage)
      : new NotAnswered('failed', error.name)
  const { cause } = error as { cause?: unknown }
  const code = codeOf(cause) ?? codeOf(error)
  if (code !== undefined) return new NotAnswered(brokenConnection.has(code) ? 'broken' : 'failed', code)
  return new NotAnswered('failed', cause instanceof Error ? cause.message : 'its URL cannot be requested')
}

/** The code of the operating system or of undici. A DOMException's code is a number, which is less useful than its name. */
function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code
  return typeof code === 'string' ? code : undefined
}
