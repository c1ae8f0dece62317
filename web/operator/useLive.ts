import { useEffect, useState } from 'preact/hooks'

/** What happened between two events; as `GET /api/operator/live` tells it. */
export interface LiveAnswer {
  readonly spanMs: number
  readonly asked: number
  readonly paid: number
  readonly answered: number
  readonly repeated: number
  readonly pending: number
  readonly refused: number
  readonly failed: number
  readonly free: number
  readonly left: number
  readonly underWay: number
  readonly processes: number
  readonly silent: number
}

export interface Live {
  /** Of about a minute, the oldest first. */
  readonly seconds: readonly LiveAnswer[]
  readonly state: 'connecting' | 'live' | 'lost'
  /** Begins anew. */
  readonly again: () => void
}

export const SECONDS = 60

/**
 * Follows the calls while the page is seen. A browser asks again by itself when the stream breaks off, and gives up where the
 * service refuses it.
 */
export function useLive(onSignedOut: () => void): Live {
  const [seconds, setSeconds] = useState<readonly LiveAnswer[]>([])
  const [state, setState] = useState<Live['state']>('connecting')
  const [round, setRound] = useState(0)
  useEffect(() => {
    let source: EventSource | undefined
    const close = () => {
      source?.close()
      source = undefined
    }
    const open = () => {
      close()
      // Nobody looks: nobody has to be asked.
      if (document.hidden) return
      setState('connecting')
      setSeconds([])
      source = new EventSource('/api/operator/live')
      source.addEventListener('calls', ({ data }) => {
        setState('live')
        setSeconds((before) => [...before, JSON.parse(data) as LiveAnswer].slice(-SECONDS))
      })
      source.addEventListener('ended', () => {
        close()
        onSignedOut()
      })
      source.addEventListener('error', () => setState(source?.readyState === 2 ? 'lost' : 'connecting'))
    }
    open()
    document.addEventListener('visibilitychange', open)
    return () => {
      document.removeEventListener('visibilitychange', open)
      close()
    }
  }, [round])
  return { seconds, state, again: () => setRound((before) => before + 1) }
}
