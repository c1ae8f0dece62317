/** A request to the marketplace API, as a seller's program makes it. @returns its data @throws with the answer's words */
export async function callApi(
  baseUrl: string,
  method: string,
  path: string,
  body: object,
  apiKey?: string,
): Promise<ApiData> {
  const response = await fetch(baseUrl + path, {
    method,
    headers: { 'content-type': 'application/json', ...(apiKey && { authorization: `Bearer ${apiKey}` }) },
    body: JSON.stringify(body),
  })
  const answer = (await response.json()) as { data?: object; error?: { message: string } }
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${answer.error?.message}`)
  return (answer.data ?? answer) as ApiData
}

/** What the demo reads of answers; each has some of it. */
export interface ApiData {
  readonly id: string
  readonly message: string
  readonly apiKey: string
  readonly fullUrl: string
  readonly price: string
  readonly checkoutUrl: string
}
