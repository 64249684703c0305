// SPDX-License-Identifier: Apache-2.0
// What each packet makes of each state, to be read by people: the C tables of bpf/packet/conn/life/states.h are compared with
// it. A cell is the next state, or `-` if it stays, and effects behind `+`. `CLOSED<ESTABLISHED` is the state CLOSED of a
// connection that was ESTABLISHED before. Each row is one packet of the numbers that the connection has.

export const TABLES = {
  TCP: `
                    | NEW                   | ANSWERED                 | ESTABLISHED                   | FIN_CLIENT                   | FIN_BACKEND                   | TIME_WAIT
    none            | -                     | -                        | -                             | -                            | -                             | -
    client late     | begins                | begins                   | begins                        | begins                       | begins                        | begins
    client SYN      | - +syn +takes         | - +syn                   | - +syn                        | - +syn                       | - +syn                        | begins
    client data     | -                     | ESTABLISHED +confirms    | -                             | -                            | -                             | -
    client FIN      | -                     | FIN_CLIENT +confirms     | FIN_CLIENT                    | -                            | TIME_WAIT                     | -
    client RST      | CLOSED_BY_CLIENT<NEW  | CLOSED_BY_CLIENT<ANSWERED | CLOSED_BY_CLIENT<ESTABLISHED | CLOSED_BY_CLIENT<FIN_CLIENT  | CLOSED_BY_CLIENT<FIN_BACKEND  | CLOSED_BY_CLIENT<TIME_WAIT
    backend SYN-ACK | ANSWERED +anew        | - +anew                  | - +anew                       | ESTABLISHED +anew            | ESTABLISHED +anew             | ESTABLISHED +anew
    backend data    | ANSWERED              | -                        | -                             | -                            | -                             | -
    backend FIN     | FIN_BACKEND +confirms | FIN_BACKEND +confirms    | FIN_BACKEND                   | TIME_WAIT                    | -                             | -
    backend RST     | CLOSED_BY_BACKEND<NEW | CLOSED_BY_BACKEND<ANSWERED | CLOSED_BY_BACKEND<ESTABLISHED | CLOSED_BY_BACKEND<FIN_CLIENT | CLOSED_BY_BACKEND<FIN_BACKEND | CLOSED_BY_BACKEND<TIME_WAIT`,

  'TCP after a RST': `
                    | CLOSED_BY_CLIENT<ESTABLISHED | CLOSED_BY_BACKEND<ESTABLISHED  | CLOSED<ESTABLISHED
    none            | -                            | -                              | -
    client late     | begins                       | begins                         | begins
    client SYN      | begins                       | begins                         | begins
    client data     | ESTABLISHED                  | -                              | CLOSED_BY_BACKEND<ESTABLISHED
    client FIN      | FIN_CLIENT                   | CLOSED_BY_BACKEND<FIN_CLIENT   | CLOSED_BY_BACKEND<FIN_CLIENT
    client RST      | -                            | CLOSED<ESTABLISHED             | -
    backend late    | leaves                       | leaves                         | leaves
    backend SYN-ACK | ESTABLISHED +anew            | ESTABLISHED +anew              | ESTABLISHED +anew
    backend data    | -                            | ESTABLISHED                    | CLOSED_BY_CLIENT<ESTABLISHED
    backend FIN     | CLOSED_BY_CLIENT<FIN_BACKEND | FIN_BACKEND                    | CLOSED_BY_CLIENT<FIN_BACKEND
    backend RST     | CLOSED<ESTABLISHED           | -                              | -`,

  'TCP after a RST, half-open before': `
                    | CLOSED_BY_CLIENT<NEW      | CLOSED_BY_CLIENT<ANSWERED | CLOSED_BY_BACKEND<NEW | CLOSED_BY_BACKEND<ANSWERED
    none            | -                         | -                         | -                     | -
    client data     | NEW                       | ESTABLISHED +confirms     | -                     | CLOSED_BY_BACKEND<ESTABLISHED +confirms
    client FIN      | NEW                       | FIN_CLIENT +confirms      | -                     | CLOSED_BY_BACKEND<FIN_CLIENT +confirms
    backend SYN-ACK | ANSWERED +anew            | ANSWERED +anew            | ANSWERED +anew        | ANSWERED +anew
    backend data    | CLOSED_BY_CLIENT<ANSWERED | -                         | ANSWERED              | ANSWERED`,

  'TCP, masqueraded': `
                    | TIME_WAIT
    backend late    | leaves`,

  'TCP, one-sided': `
                    | NEW                          | ESTABLISHED                    | FIN_CLIENT                  | REOPENED                  | CLOSED_BY_CLIENT<ESTABLISHED
    none            | -                            | -                              | -                           | -                         | -
    client late     | begins                       | begins                         | begins                      | begins                    | begins
    client SYN      | - +syn +takes                | - +syn                         | REOPENED +syn +takes        | - +syn                    | begins
    client data     | ESTABLISHED                  | -                              | -                           | ESTABLISHED               | ESTABLISHED
    client FIN      | FIN_CLIENT                   | FIN_CLIENT                     | -                           | FIN_CLIENT                | FIN_CLIENT
    client RST      | CLOSED_BY_CLIENT<NEW         | CLOSED_BY_CLIENT<ESTABLISHED   | CLOSED_BY_CLIENT<FIN_CLIENT | CLOSED_BY_CLIENT<REOPENED | -
    backend SYN-ACK | -                            | -                              | -                           | -                         | -
    backend data    | -                            | -                              | -                           | -                         | -
    backend FIN     | -                            | -                              | -                           | -                         | -
    backend RST     | -                            | -                              | -                           | -                         | -`,

  UDP: `
                    | NEW      | ANSWERED       | ANSWERED_TWICE        | ESTABLISHED
    client late     | begins   | begins         | begins                | begins
    client data     | -        | -              | ESTABLISHED +confirms | -
    backend late    | leaves   | leaves         | leaves                | leaves
    backend data    | ANSWERED | ANSWERED_TWICE | -                     | -`,

  'UDP, one-sided': `
                    | NEW         | ESTABLISHED
    client late     | begins      | begins
    client data     | -           | -
    client again    | ESTABLISHED | -
    backend data    | -           | -`,

  SCTP: `
                    | NEW                         | ESTABLISHED | SHUTDOWN          | CLOSED<ESTABLISHED | CLOSED<NEW
    none            | -                           | -           | -                 | -                  | -
    client late     | begins                      | begins      | begins            | begins             | begins
    client SYN      | -                           | -           | -                 | begins             | begins
    client data     | -                           | - +takes    | - +takes          | -                  | -
    client FIN      | -                           | SHUTDOWN    | -                 | -                  | -
    client RST      | CLOSED                      | CLOSED      | CLOSED            | -                  | -
    client done     | -                           | CLOSED      | CLOSED            | -                  | -
    backend SYN-ACK | ESTABLISHED +anew +confirms | - +anew     | ESTABLISHED +anew | ESTABLISHED +anew  | ESTABLISHED +anew +confirms
    backend data    | -                           | -           | -                 | -                  | -
    backend FIN     | -                           | SHUTDOWN    | -                 | -                  | -
    backend RST     | CLOSED                      | CLOSED      | CLOSED            | -                  | -
    backend done    | -                           | CLOSED      | CLOSED            | -                  | -`,
} as const;

/** How long a record is kept, and after how long a first packet begins another connection, by state. */
export const TIMES = `
                 | liveness    | kept           | late
  TCP
    NEW               | half-open   | tcpNew         | tcpNew
    ANSWERED          | half-open   | tcpNew         | tcpNew
    ESTABLISHED       | lives       | tcpEstablished | tcpEstablished
    FIN_CLIENT        | half-closed | tcpHalfClosed  | tcpHalfClosed
    FIN_BACKEND       | half-closed | tcpHalfClosed  | tcpHalfClosed
    TIME_WAIT         | ended       | tcpClosed      | tcpClosed
    CLOSED_BY_CLIENT  | ended       | tcpClosed      | tcpClosed
    CLOSED_BY_BACKEND | ended       | tcpClosed      | tcpClosed
    CLOSED            | ended       | tcpClosed      | tcpClosed
  TCP, masqueraded
    FIN_BACKEND       | half-closed | tcpHalfClosed  | tcpHalfClosed
    TIME_WAIT         | ended       | reserved       | tcpClosed
    CLOSED            | ended       | tcpClosed      | tcpClosed
  TCP, one-sided
    NEW               | half-open   | tcpNew         | tcpNew
    ESTABLISHED       | lives       | tcpEstablished | tcpEstablished
    FIN_CLIENT        | half-closed | tcpHalfClosed  | reserved
    REOPENED          | half-closed | tcpHalfClosed  | reserved
    CLOSED_BY_CLIENT  | ended       | tcpClosed      | tcpClosed
  UDP
    NEW               | half-open   | udpNew         | udpNew
    ANSWERED          | half-open   | udpNew         | udpNew
    ANSWERED_TWICE    | half-open   | udpNew         | udpNew
    ESTABLISHED       | lives       | udpEstablished | udpEstablished
  UDP, one-sided
    NEW               | half-open   | udpNew         | udpNew
    ESTABLISHED       | lives       | udpEstablished | udpEstablished
  SCTP
    NEW               | half-open   | tcpNew         | tcpNew
    ESTABLISHED       | lives       | tcpEstablished | tcpEstablished
    SHUTDOWN          | half-closed | tcpHalfClosed  | tcpHalfClosed
    CLOSED            | ended       | tcpClosed      | tcpClosed`;
