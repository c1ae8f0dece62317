import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

interface Operation {
  readonly responses: Record<string, { readonly content?: Record<string, { readonly schema: object }> }>
}

interface OpenApi {
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: { readonly schemas: Record<string, object> }
}

/**
 * Makes the measure of exactness: says what is wrong with an answer when the OpenAPI document is taken at its word, with
 * every field named and none besides.
 */
export function documented(document: OpenApi) {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
  ajv.addSchema({ $id: 'doc', components: document.components })
  const compiled = new Map<string, ValidateFunction>()
  const routes = Object.entries(document.paths).map(([path, methods]) => ({
    form: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`),
    path,
    methods,
  }))

  return function problemsOf(method: string, url: string, status: number, body: unknown): string[] {
    // Dot segments are gone before the server sees them.
    const path = new URL(`http://localhost${url}`).pathname.replace(/(?<=.)\/$/, '')
    const route = routes.find((r) => r.form.test(path))
    const operation = route?.methods[method.toLowerCase()]
    if (route === undefined || operation === undefined) return []
    const response = operation.responses[String(status)]
    const common = [400, 404, 405, 413, 415, 500, 503].includes(status)
    const where = `${method} ${route.path} ${status}`
    if (response === undefined && !common) return [`${where} is not documented`]
    const schema = response?.content?.['application/json']?.schema ?? { $ref: '#/components/schemas/Error' }
    let check = compiled.get(where)
    if (check === undefined) {
      check = ajv.compile(JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"doc#/')))
      compiled.set(where, check)
    }
    if (check(body)) return []
    return (check.errors ?? []).map(
      (e) => `${where} at ${e.instancePath}: ${e.message} ${JSON.stringify(e.params)}`,
    )
  }
}
