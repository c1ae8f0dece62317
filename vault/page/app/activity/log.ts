import { useEffect, useRef, useState } from 'preact/hooks'
import { call } from '../session.ts'
import { approvals } from '../store.ts'
import { type Entry, hasText } from './activityWords.ts'

export interface Filter {
  readonly agent: string
  readonly action: string
  readonly status: string
  /** Words that the page searches for in the entries. */
  readonly text: string
}
export const everything: Filter = { agent: '', action: '', status: '', text: '' }

/** Entries per page. A page of the log may have fewer or no entries and still have a next page. */
const PAGE_SIZE = 50
/** Entries per page for a text search. The next constant is the number of pages that are read at a time. */
const SEARCH_PAGE_SIZE = 500
const MAX_SEARCH_PAGES = 8

interface LogPage {
  readonly events: readonly Entry[]
  readonly cursor?: string
}

/** The loaded entries, newest first. */
interface LogState {
  readonly entries: readonly Entry[]
  readonly cursor?: string | undefined
  readonly isLoading: boolean
  readonly problem?: string | undefined
}

const nothingYet: LogState = { entries: [], isLoading: true }

function read({ text, ...wanted }: Filter, limit: number, cursor?: string): Promise<LogPage> {
  const query = new URLSearchParams({ limit: String(limit), ...(cursor !== undefined && { cursor }) })
  for (const [name, value] of Object.entries(wanted)) if (value !== '') query.set(name, value)
  return call('GET', `/activity?${query}`)
}

/**
 * The log entries that match `filter`. The newest are loaded first, `more` loads older ones, and new ones are added as they
 * arrive.
 */
export function useLog(filter: Filter) {
  const [state, setState] = useState(nothingYet)
  const latest = useRef({ state, turn: 0 })
  latest.current!.state = state
  const matches = (entry: Entry) => filter.text === '' || hasText(entry, filter.text)

  /** Continues where `from` ends. A response to an older filter is dropped. */
  const load = async (from: LogState) => {
    const turn = ++latest.current!.turn
    const isSearch = filter.text !== ''
    const entries = [...from.entries]
    let { cursor } = from
    setState({ ...from, isLoading: true, problem: undefined })
    try {
      for (let pages = 1; ; pages++) {
        const page = await read(filter, isSearch ? SEARCH_PAGE_SIZE : PAGE_SIZE, cursor)
        const found = page.events.filter(matches)
        entries.push(...found)
        cursor = page.cursor
        if (cursor === undefined || !isSearch || found.length >= PAGE_SIZE || pages >= MAX_SEARCH_PAGES) break
      }
      const newest = entries[0]?.details.seq ?? 0
      const since = (now: LogState) => now.entries.filter(({ details }) => details.seq > newest)
      if (turn === latest.current!.turn)
        setState((now) => ({ entries: [...since(now), ...entries], cursor, isLoading: false }))
    } catch (error) {
      if (turn === latest.current!.turn)
        setState((now) => ({ ...now, isLoading: false, problem: (error as Error).message }))
    }
  }

  /** Adds newer entries on top. Older pages that were loaded stay. */
  const catchUp = async () => {
    const { turn } = latest.current!
    const page = await read(filter, PAGE_SIZE).catch(() => undefined)
    if (page === undefined || turn !== latest.current!.turn) return
    const newestOf = ({ entries }: LogState) => entries[0]?.details.seq ?? 0
    const freshOf = (now: LogState) => page.events.filter(({ details }) => details.seq > newestOf(now))
    const { state: now } = latest.current!
    // There are more new entries than fit into one page.
    if (newestOf(now) > 0 && page.events.length > 0 && freshOf(now).length === page.events.length)
      return load(nothingYet)
    setState((before) => ({ ...before, entries: [...freshOf(before).filter(matches), ...before.entries] }))
  }

  useEffect(() => {
    void load(nothingYet)
    const unwatch = approvals.watch((changed) => {
      if (changed !== undefined) void catchUp()
    })
    return () => {
      unwatch()
      latest.current!.turn++
    }
  }, [filter])
  return { ...state, hasMore: state.cursor !== undefined, more: () => void load(state) }
}
