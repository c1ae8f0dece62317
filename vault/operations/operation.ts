import type { VaultOperation, VaultResponse } from '../../core/plugin/vault.ts'
import type { RequestContext } from '../host/caller.ts'
import type { VaultApi } from '../host/createVaultApi.ts'
import { bareRequest } from '../requests/agentRequests.ts'
import type { Request } from '../requests/request.ts'
import type { ObjectSchema } from '../requests/schema.ts'

export type Fields = Readonly<Record<string, unknown>>
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
/** A method and a path, such as `GET /address/:chain`. A segment that begins with `:` matches any one segment. */
export type Endpoint = `${Method} /${string}`

/** The input of an operation, over any transport. */
export interface Call<Input = Fields> {
  /** The fields of the body, of the query string or of the tool's arguments. */
  readonly input: Input
  /** The path segment at `:id` or `:chain`. Empty where the path has none. */
  readonly name: string
  readonly context: RequestContext
}

export type Run<Input = Fields, Result = VaultResponse> = (
  api: VaultApi,
  call: Call<Input>,
) => Result | Promise<Result>

interface Row {
  /** The operation's HTTP routes. The capabilities document shows the first one. */
  readonly at: Endpoint | readonly Endpoint[]
  /**
   * The callers that the transport admits before it reads the request. `agent` includes the owner. The host checks the caller
   * again.
   */
  readonly who: 'anyone' | 'agent' | 'owner'
  /** True when agents on other machines may call the operation over the relay. Absent: only on this machine. */
  readonly isRemote?: true
  /** The operation's name in the capabilities document. Absent where the document does not list it. */
  readonly name?: string
  readonly description?: string
  readonly tool?: ToolRow
}

interface ToolRow {
  /** The tool's name. Default: the name of the operation. */
  readonly name?: string
  /** Description for the agent that decides whether and how to call the tool. */
  readonly description: string
  /** Fields of the result. A null field is omitted. */
  readonly result: ObjectSchema
  /** True when the owner's approval may be needed. The call can then wait, and its result can be `pending`. */
  readonly mayAsk?: true
  /**
   * Absent for a tool that only reads. Present for a tool that stores, spends, signs or locks something. `repeatable`: a
   * repeated call changes nothing more. `outside`: the tool reaches parties outside the vault. The vault itself never relies on
   * these hints for clients.
   */
  readonly changes?: { readonly repeatable?: true; readonly outside?: true }
  /** The tool's handler, if it differs from the route's. */
  readonly act?: Act
}

/** The fields that an operation takes, and the handler that gets them after validation. */
interface Act {
  readonly input: ObjectSchema
  readonly run: Run
}

export type Tool = Omit<ToolRow, 'act'> & Act & { readonly name: string }

/**
 * One operation of the vault. It defines the HTTP routes, the entry in the capabilities, the access over the relay and the MCP
 * tool.
 */
export interface Operation extends Omit<Row, 'at' | 'tool'> {
  readonly at: readonly Endpoint[]
  /** True if the vault performs a request with the same Idempotency-Key only once. Other operations reject the header. */
  readonly keepsKey?: true
  /**
   * True if the operation has fields. They are in the query string of a GET, and in the body of other methods. Otherwise
   * neither is read.
   */
  readonly hasInput: boolean
  readonly run: Run
  readonly tool?: Tool
}

interface Handled<T> {
  /** The operation's fields. Absent where it has none. */
  readonly takes?: Request<T>
  /** Runs the operation and returns the body of the response. */
  readonly run: Run<T, object>
  readonly status?: 200 | 201
}

export function operation<T>({ takes, run, status, ...row }: Row & Handled<T>): Operation {
  return derive(row, takes !== undefined, act(takes, run, status))
}

/** An operation that agents may call from any machine. */
export const agentOperation = <T>(row: Omit<Row, 'who' | 'isRemote'> & Handled<T>): Operation =>
  operation<T>({ ...row, who: 'agent', isRemote: true })

/** An operation of the request pipeline. The pipeline validates the fields after it has identified the caller. */
export function pipelineOperation({
  takes,
  ...row
}: Omit<Row, 'who' | 'isRemote'> & {
  readonly name: VaultOperation
  readonly takes: Request<unknown>
}): Operation {
  // The only GET operation of the pipeline has its field `chain` in the path.
  const hasInput = row.name !== 'get_address'
  const run: Run = (api, { input, name: chain, context }) =>
    api.request(row.name, chain === '' ? input : { chain }, context)
  const shared = { input: takes.schema as ObjectSchema, run }
  return { ...derive({ ...row, who: 'agent', isRemote: true }, hasInput, shared), keepsKey: true }
}

/** Creates a handler that validates a request and runs it. @param takes undefined if there are no fields */
export function act<T>(takes: Request<T> | undefined, run: Run<T, object>, status = 200): Act {
  const { schema, check } = takes ?? (bareRequest as unknown as Request<T>)
  return {
    input: schema as ObjectSchema,
    run: async (api, call) => {
      const body = await run(api, { ...call, input: check(call.input) })
      return { status, body: { ...body } }
    },
  }
}

/** Accepts any fields. The host validates them after it has identified the caller. */
export const unchecked = (schema: ObjectSchema): Request<Fields> => ({
  schema: schema as ObjectSchema<Fields>,
  check: (input) => input as Fields,
})

function derive({ at, tool, ...row }: Row, hasInput: boolean, shared: Act): Operation {
  const derived = { ...row, at: [at].flat() as Endpoint[], hasInput, run: shared.run }
  if (tool === undefined) return derived
  const { act: own = shared, name = row.name!, ...text } = tool
  return { ...derived, tool: { ...text, ...own, name } }
}
