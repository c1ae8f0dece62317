import {
  type AskNode,
  basicAuthorization,
  lateMessage,
  longMessage,
  type NodeRequest,
  NotAnswered,
} from './post.ts'

/** Makes requests by a `fetch`, which goes through the proxy of the environment where Node is told to. */
export function askByFetch(fetch: typeof globalThis.fetch): AskNode {
  return async (request) => {
    const { body, maxAnswerBytes } = request
    try {
      const url = new URL(request.url)
      const authorization = basicAuthorization(url)
      // It takes no URL that holds them.
      url.username = url.password = ''
      const response = await fetch(url.href, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(authorization && { authorization }) },
        body,
        redirect: 'error',
        signal: signalOf(request),
      })
      return { status: response.status, text: await readText(response, maxAnswerBytes) }
    } catch (error) {
      throw error instanceof NotAnswered ? error : toNotAnswered(error)
    }
  }
}

/** It takes whole milliseconds only, and what is measured is not. */
function signalOf({ timeoutMs, signal }: NodeRequest): AbortSignal {
  const limit = AbortSignal.timeout(Math.ceil(timeoutMs))
  return signal === undefined ? limit : AbortSignal.any([signal, limit])
}

async function readText(response: Response, maxAnswerBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop cancels the body.
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxAnswerBytes) throw new NotAnswered('long', longMessage(maxAnswerBytes))
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const brokenConnection = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'])

/** The message of an error without a cause may quote the URL, and is left out. */
function toNotAnswered(error: unknown): NotAnswered {
  if (error instanceof DOMException)
    return error.name === 'TimeoutError'
      ? new NotAnswered('late', lateMessage)
      : new NotAnswered('failed', error.name)
  const { cause } = error as { cause?: unknown }
  const code = codeOf(cause) ?? codeOf(error)
  if (code !== undefined) return new NotAnswered(brokenConnection.has(code) ? 'broken' : 'failed', code)
  return new NotAnswered(
    'failed',
    cause instanceof Error ? cause.message : 'its URL is none that can be asked',
  )
}

/** A system's or undici's code; those of a DOMException are numbers, and say less than its name. */
function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code
  return typeof code === 'string' ? code : undefined
}
