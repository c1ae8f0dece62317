/** An error from the API, with the API's message. */
export class ApiFault extends Error {
  readonly status: number
  readonly code: string
  readonly requestId: string | undefined
  readonly details: readonly ErrorDetail[]

  constructor(status: number, error: RefusedError | undefined) {
    super(error?.message ?? 'The service did not respond. Check your connection and try again.')
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

/** An error of one field in a request body. */
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
 * Calls the API as the browser that is signed in.
 *
 * @param body a form, or a value that is sent as JSON
 * @returns `data` of the response, or the whole body if it has no `data`
 * @throws {ApiFault}
 */
export type ApiClient = <T = unknown>(method: Method, path: string, body?: unknown) => Promise<T>

/**
 * Creates a client. The browser adds the cookie by itself. The CSRF token proves that the request comes from a page of this
 * gateway.
 *
 * @param csrfToken token of the browser session. Undefined if signed out
 * @param onLost called when the browser session has ended, or another tab's sign-in has replaced it
 */
export function createApiClient(csrfToken?: string, onLost?: (fault: ApiFault) => void): ApiClient {
  return async <T>(method: Method, path: string, body?: unknown): Promise<T> => {
    const headers: Record<string, string> = { accept: 'application/json' }
    const isForm = body instanceof FormData
    // The browser sets the content type of a form, because the type contains the boundary.
    if (body !== undefined && !isForm) headers['content-type'] = 'application/json'
    if (csrfToken !== undefined) headers['x-csrf-token'] = csrfToken
    const response = await fetch(path, {
      method,
      headers,
      credentials: 'same-origin',
      ...(body !== undefined && { body: isForm ? body : JSON.stringify(body) }),
    }).catch(() => undefined)
    const answer = (await response?.json().catch(() => undefined)) as Answer | undefined
    if (response?.ok) return (answer?.success === true && 'data' in answer ? answer.data : answer) as T
    const fault = new ApiFault(response?.status ?? 0, answer?.error)
    if (fault.code === 'UNAUTHORIZED' || fault.code === 'FOREIGN_ORIGIN') onLost?.(fault)
    throw fault
  }
}
