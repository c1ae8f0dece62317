import { type IncomingHttpHeaders, request } from 'node:http'

export interface Called {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The body as JSON; undefined when it is none. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every form
  readonly json: any
}

export interface CallOptions {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly method?: string
}

/** Calls as any HTTP client does, on a connection of its own. A body makes it a POST of JSON; text and bytes go as they are. */
export function call(
  base: string,
  path: string,
  { body, headers, method }: CallOptions = {},
): Promise<Called> {
  const { hostname, port } = new URL(base)
  const text =
    body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const sending = request(
      {
        hostname: hostname.replace(/^\[|\]$/g, ''),
        port,
        path,
        method: method ?? (text === undefined ? 'GET' : 'POST'),
        headers: { ...(text === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
        agent: false,
      },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const whole = Buffer.concat(chunks).toString('utf8')
          resolve({
            status: response.statusCode!,
            headers: response.headers,
            text: whole,
            json: parsed(whole),
          })
        })
      },
    )
    sending.on('error', reject)
    sending.end(text)
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
