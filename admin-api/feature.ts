import type { FastifyInstance } from 'fastify'
import type { Api } from './deps.ts'

export type AddRoutes = (app: FastifyInstance, api: Api) => void | Promise<void>

/** Work beside the requests. It starts when the API listens, and has to end soon after `stopped` aborts. */
export type Job = (api: Api, stopped: AbortSignal) => Promise<void>

/** One thing that the control plane does. Its routes, rules and jobs stand in a folder of its own. */
export interface Feature {
  /** Its heading in the API reference. */
  readonly name: string
  /** What it is, below the heading. Left out where the reference shows nothing of it. */
  readonly about?: string
  /** Routes that anybody may ask. */
  readonly publicRoutes?: readonly AddRoutes[]
  /** Routes behind an API key; `callerOf` says whose. */
  readonly storeRoutes?: readonly AddRoutes[]
  readonly jobs?: readonly Job[]
}
