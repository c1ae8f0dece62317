/** What the API refused, in its words. */
export class ApiFault extends Error {
  readonly status: number
  readonly code: string
  readonly requestId: string | undefined
  readonly details: readonly ErrorDetail[]

  constructor(status: number, error: RefusedError | undefined) {
    super(error?.message ?? 'The service did not answer. Check the connection and try again.')
    this.status = status
    this.code = error?.code ?? 'UNREACHABLE'
    this.requestId = error?.requestId
    this.details = error?.details ?? []
  }
}

interface Answer {
  readonly success?: boolean
  readonly data?: unknown
  readonly error?: RefusedError
}

/** What is wrong at one place of a body. */
interface ErrorDetail {
  readonly path: string
  readonly code: string
  readonly message: string
}

interface RefusedError {
  readonly code: string
  readonly message: string
  readonly requestId?: string
  readonly details?: readonly ErrorDetail[]
}

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/**
 * Asks the API as the signed-in browser that this is.
 *
 * @param body a form, or what is sent as JSON
 * @returns `data` where the answer has an envelope, or all of it
 * @throws {ApiFault}
 */
export type ApiClient = <T = unknown>(method: Method, path: string, body?: unknown) => Promise<T>

/**
 * Makes a client. The browser sends the cookie by itself; the token proves that a page of the service asks.
 *
 * @param csrfToken of the session; none while nobody is signed in
 * @param onLost is called when the session is over, or the browser has another one by now: another tab may have signed in
 */
export function createApiClient(csrfToken?: string, onLost?: (fault: ApiFault) => void): ApiClient {
  return async <T>(method: Method, path: string, body?: unknown): Promise<T> => {
    const headers: Record<string, string> = { accept: 'application/json' }
    const isForm = body instanceof FormData
    // Of a form the browser says it, with what parts its fields.
    if (body !== undefined && !isForm) headers['content-type'] = 'application/json'
    if (csrfToken !== undefined) headers['x-csrf-token'] = csrfToken
    const response = await fetch(path, {
      ...{ method, headers, credentials: 'same-origin' },
      ...(body !== undefined && { body: isForm ? body : JSON.stringify(body) }),
    }).catch(() => undefined)
    const answer = (await response?.json().catch(() => undefined)) as Answer | undefined
    if (response?.ok) return (answer?.success === true && 'data' in answer ? answer.data : answer) as T
    const fault = new ApiFault(response?.status ?? 0, answer?.error)
    if (fault.code === 'UNAUTHORIZED' || fault.code === 'FOREIGN_ORIGIN') onLost?.(fault)
    throw fault
  }
}
