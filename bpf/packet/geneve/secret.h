/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the agent writes of the secrets of the cluster: the value of fl_cookie. */
#ifndef FAIRLEAD_GENEVE_SECRET_H
#define FAIRLEAD_GENEVE_SECRET_H

#include <linux/types.h>

/* Key of SipHash, derived from a secret of the cluster. */
struct cookie_key {
	__u64 word[2];
};

/* Cookies of the requests that nodes send each other in Geneve. */
struct cookies {
	struct cookie_key key[2]; /* cookies of both are taken, those of the first are sent */
	__u8 keys;		  /* how many of them there are: 1 or 2 */
	__u8 is_sent;		  /* else requests leave without a cookie */
	__u8 takes_none;	  /* requests without a cookie are taken, too */
	__u8 pad[5];
};

_Static_assert(sizeof(struct cookies) == 40, "cookies");

#endif
